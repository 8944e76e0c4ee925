"""``explain``: why a request went where it went."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from console.cli.command import LOOK, Place, command
from console.cli.effect import Effect
from console.cli.options import OutputOption
from console.cli.output import Format, write_data
from console.cli.reference import bare_name
from console.hold_notes import hold_words
from console.plain.terminal import out, say, width
from console.text import literal
from control_plane.contracts.errors import InvalidRequest


@command("explain", LOOK, Effect.LOOKS)
async def explain(
    place: Place,
    request: Annotated[str, typer.Argument(metavar="REQUEST", help="Its id, as req-… or request/req-….")],
    output: OutputOption = Format.TABLE,
) -> None:
    """Tell why a request went where it went, and why not to each of the others.

    First, each time that it was kept waiting: for how long, why, and at which place it began. Then a table for every
    attempt, retries and moves in mid-answer included: each endpoint that could have been picked with its scores, the
    load they were read from, and its total. -o wide lists all that are kept.
    """
    from console.plain.data import plain
    from console.plain.decision import decision_data, decision_lines, hold_lines

    name = bare_name(request, "requests")
    if not name:
        raise InvalidRequest("which request?", param="REQUEST", hint=place.command("get requests --all"))
    async with place.client() as client:
        told = await client.decisions.explain(name)
    if output in (Format.JSON, Format.YAML):
        document = {"request_id": told.request_id, "decisions": [decision_data(each) for each in told.decisions]}
        holds = [{**plain(hold), "why": hold_words(hold)} for hold in told.holds]
        write_data({**document, "holds": holds, "silent": list(told.silent)}, output)
    elif output is Format.NAME:
        for decision in told.decisions:
            out(f"decision/{literal(decision.router_id)}/{decision.number}")
    else:
        room = width(sys.stdout)
        for line in hold_lines(told.holds, room):
            out(line)
        for number, decision in enumerate(told.decisions):
            if number or told.holds:
                out("")
            for line in decision_lines(decision, room, everything=output is Format.WIDE):
                out(line)
    if told.silent:
        say(f"no answer in time from {', '.join(map(literal, told.silent))}: there may be more", "watch")
