"""``get``: what there is, as a list."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from console.cli.command import LOOK, Place, command
from console.cli.options import OutputOption
from console.cli.output import Format, write_data, write_rows
from console.cli.reference import not_found, references, singular
from console.plain.terminal import out, say
from console.text import literal


@command("get", LOOK)
async def get(
    place: Place,
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TYPE[/NAME] [NAME]...",
            help="workers, requests, models, pools, gateways or events.",
            show_default=False,
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Requests that ended lately, too.")] = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """List workers, requests, models, pools, gateways or events.

    With one name, -o json prints one object instead of a list.
    """
    from console.plain.resources import RESOURCES, data_of

    wanted = references(what or [])
    async with place.client() as client:
        named_request = any(kind == "requests" and name for kind, name in wanted)
        snapshot = await client.get_snapshot(finished_requests=everything or named_request)
    found: dict[str, list[Any]] = {}
    for kind, name in wanted:
        resource = RESOURCES[kind]
        rows = resource.rows(snapshot)
        if name is not None:
            known = [resource.name(row) for row in rows]
            rows = [row for row in rows if resource.name(row) == name]
            if not rows:
                raise not_found(kind, name, known, place.command(f"get {kind}"))
        found.setdefault(kind, []).extend(rows)

    single = len(wanted) == 1 and wanted[0][1] is not None
    if output in (Format.JSON, Format.YAML):
        data = [data_of(row) for rows in found.values() for row in rows]
        write_data(data[0] if single else data, output)
        return
    for kind, rows in found.items():
        resource = RESOURCES[kind]
        if output is Format.NAME:
            for row in rows:
                out(f"{singular(kind)}/{literal(resource.name(row))}")
        elif rows:
            write_rows(rows, resource.columns(snapshot), wide=output is Format.WIDE)
        else:
            say(f"no {kind} right now")
