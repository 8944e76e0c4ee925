"""``operator list|create|revoke``: who may use the operators' API, and as what."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import Annotated

import typer

from console.cli.command import OPERATE, Place, Verbs
from console.cli.confirm import announce, confirm
from console.cli.options import OutputOption, YesOption
from console.cli.output import Format, write_data
from console.cli.reference import bare_name, not_found
from console.plain.terminal import out, say
from console.text import literal

OPERATOR = Verbs("operator", OPERATE, "Operators and their roles: viewer, operator, admin.")


class RoleName(StrEnum):
    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


@OPERATOR.verb("list")
async def list_operators(
    place: Place,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Those that are revoked, too.")] = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """List operators. Whoever has the home's own operator.key is an admin beside them."""
    from console.cli.listing import listings, write_all

    async with place.client() as client:
        told, _ = await listings(client, ["operators"], everything=everything, finished_requests=False)
    write_all(told["operators"], output)


@OPERATOR.verb("create")
async def create(
    place: Place,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    role: Annotated[
        RoleName, typer.Option("--role", help="viewer looks; operator drains, scales, cancels; admin all.")
    ],
    output: OutputOption = Format.TABLE,
) -> None:
    """Make an operator and print the key: it is shown this once. Use it with --operator-key-file FILE."""
    from control_plane.contracts.access import Role

    async with place.client() as client:
        new = await client.access.create_operator(name, Role[role.name])
    if output in (Format.JSON, Format.YAML):
        from console.plain.access import operator_data

        write_data({"key": new.key, **operator_data(new.view, time.time())}, output)
        return
    say(literal(f"operator/{new.view.id} created: {name}, {role.value}"))
    say("the key itself, shown this once:")
    out(new.key)


@OPERATOR.verb("revoke")
async def revoke(
    place: Place,
    operator: Annotated[str, typer.Argument(metavar="OPERATOR", help="The operator's id, or name.")],
    yes: YesOption = False,
) -> None:
    """End an operator for good."""
    wanted = bare_name(operator, "operators")
    async with place.client() as client:
        known = {o.id: o for o in (await client.access.operators()).operators if o.revoked_unix is None}
        found = [o for o in known.values() if wanted in (o.id, o.name)]
        if not found:
            raise not_found("operators", wanted, known, place.command("operator list"))
        view = found[0]
        announce(client.target.context, f"revoke operator/{view.id} ({view.name}, {view.role.name.lower()})", 0)
        confirm(f"revoke {view.id}", yes=yes, repeat=place.command("operator revoke --yes", operator))
        await client.access.revoke_operator(view.id)
    out(f"operator/{view.id} revoked")
