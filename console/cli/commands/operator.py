"""``operator list|create|revoke``: who may use the operators' API, and as what."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import Annotated

import typer

from console.cli.command import OPERATE, Place, Verbs
from console.cli.confirm import Plan, agreed
from console.cli.effect import Effect
from console.cli.hand_over import OutOption, hand_over, secret_file
from console.cli.options import DryRunOption, OutputOption, YesOption
from console.cli.output import Format
from console.cli.reference import bare_name, not_found
from console.plain.terminal import out

OPERATOR = Verbs("operator", OPERATE, "Operators and their roles: viewer, operator, admin.")


class RoleName(StrEnum):
    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


@OPERATOR.verb("list", Effect.LOOKS)
async def list_operators(
    place: Place,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Those that are revoked, too.")] = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """List operators. Whoever has the home's own operator.key is an admin beside them."""
    from console.cli.listing import list_all

    await list_all(place, "operators", everything=everything, output=output)


@OPERATOR.verb("create", Effect.CHANGES)
async def create(
    place: Place,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    role: Annotated[
        RoleName, typer.Option("--role", help="viewer looks; operator drains, scales, cancels; admin all.")
    ],
    out_file: OutOption = None,
    dry_run: DryRunOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Make an operator and print the key: it is shown this once. Better, --out FILE keeps it where only you can
    read it. It is used with --operator-key-file FILE."""
    from console.plain.access import operator_data
    from control_plane.contracts.access import Role

    async with place.client() as client:
        await client.access.create_operator(name, Role[role.name], dry_run=True)
        plan = Plan(client.target.context, f"create operator {name}, {role.value}")
        if not agreed(plan, dry_run=dry_run, output=output):
            return
        with secret_file(out_file) as file:
            new = await client.access.create_operator(name, Role[role.name])
            words = f"operator/{new.view.id} created: {name}, {role.value}"
            hand_over(new.key, file, words, operator_data(new.view, time.time()), output)


@OPERATOR.verb("revoke", Effect.ENDS)
async def revoke(
    place: Place,
    operator: Annotated[str, typer.Argument(metavar="OPERATOR", help="The operator's id, or name.")],
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """End an operator for good; what they watch ends within a second."""
    wanted = bare_name(operator, "operators")
    async with place.client() as client:
        known = {o.id: o for o in (await client.access.operators()).operators}
        valid = [o for o in known.values() if o.revoked_unix is None and wanted in (o.id, o.name)]
        if not valid and wanted in known:
            out(f"operator/{wanted} is revoked already")
            return
        if not valid:
            valid_ids = [o.id for o in known.values() if o.revoked_unix is None]
            raise not_found("operators", wanted, valid_ids, place.command("operator list"))
        view = valid[0]
        await client.access.revoke_operator(view.id, dry_run=True)
        plan = Plan(
            client.target.context, f"revoke operator/{view.id} ({view.name}, {view.role.name.lower()})", ends=True
        )
        if not agreed(plan, dry_run=dry_run, yes=yes, repeat=place.command("operator revoke --yes", operator)):
            return
        await client.access.revoke_operator(view.id)
    out(f"operator/{view.id} revoked")
