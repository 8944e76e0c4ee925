"""``get``: what there is, as a list."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from console.cli.command import LOOK, Place, command
from console.cli.effect import Effect
from console.cli.options import OutputOption
from console.cli.output import Format, write_data
from console.cli.reference import not_found, references


@command("get", LOOK, Effect.LOOKS)
async def get(
    place: Place,
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TYPE[/NAME] [NAME]...",
            help="workers, requests, models, pools, gateways, routers, events, keys, operators, audit, conversations.",
            show_default=False,
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Requests that ended lately, too; keys that are revoked; all the audit.")
    ] = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """List what there is: workers, requests, pools, keys and the like.

    workers, requests, models, pools, gateways, routers, events, keys, operators, audit and conversations.

    With one name, -o json prints one object instead of a list.
    """
    from console.cli.listing import listings, write

    wanted = references(what or [])
    async with place.client() as client:
        named = {kind for kind, name in wanted if name}
        finished = everything or "requests" in named
        told, _ = await listings(
            client,
            (kind for kind, _ in wanted),
            everything=everything or bool(named & {"keys", "operators", "audit", "conversations"}),
            finished_requests=finished,
        )
    found: dict[str, list[Any]] = {}
    for kind, name in wanted:
        listing = told[kind]
        rows = list(listing.rows) if name is None else listing.named(name)
        if name is not None and not rows:
            raise not_found(kind, name, map(listing.name, listing.rows), place.command(f"get {kind}"))
        found.setdefault(kind, []).extend(rows)

    single = len(wanted) == 1 and wanted[0][1] is not None
    if output in (Format.JSON, Format.YAML):
        data = [told[kind].data(row) for kind, rows in found.items() for row in rows]
        write_data(data[0] if single else data, output)
        return
    for kind, rows in found.items():
        write(told[kind], rows, output)
