"""``events``: what happened, oldest first."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from console.cli.command import LOOK, Place, command
from console.cli.effect import Effect
from console.cli.options import OutputOption
from console.cli.output import Format, write_data
from console.plain.data import to_json, to_yaml
from console.plain.event_line import event_line
from console.plain.terminal import flush, out, width


@command("events", LOOK, Effect.LOOKS)
async def events(
    place: Place,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on with new ones as they happen.")] = False,
    since: Annotated[
        int, typer.Option("--since", metavar="SEQ", min=0, max=(1 << 63) - 1, help="Only those after this number.")
    ] = 0,
    output: OutputOption = Format.TABLE,
) -> None:
    """Tell what happened to workers, pools, gateways and requests.

    With -f, -o json prints one object a line.
    """
    from console.plain.resources import data_of

    listed = []
    async with place.client() as client:
        async for event in client.events(since, follow=follow):
            if output in (Format.TABLE, Format.WIDE):
                out(event_line(event, width(sys.stdout)))
            elif output is Format.NAME:
                out(f"event/{event.seq}")
            elif not follow:
                listed.append(data_of(event))
            else:
                out(to_yaml([data_of(event)]) if output is Format.YAML else to_json(data_of(event), indent=None))
            if follow:
                flush()
    if not follow and output in (Format.JSON, Format.YAML):
        write_data(listed, output)
