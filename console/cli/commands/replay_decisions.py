"""``replay-decisions``: what the last decisions would have been under another profile."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from console import figures
from console.cli.command import LOOK, Place, command
from console.cli.effect import Effect
from console.cli.exits import TIMED_OUT, Ended
from console.cli.options import OutputOption
from console.cli.output import Format, write_data, write_rows
from console.plain.terminal import out, say, width
from console.text import literal, wrap
from control_plane.contracts.decision import DECISIONS_KEPT
from control_plane.contracts.errors import InvalidRequest

if TYPE_CHECKING:
    from control_plane.contracts.decision import DecisionReplay
    from control_plane.contracts.routing import RoutingProfile

_MOVED = 20


@command("replay-decisions", LOOK, Effect.LOOKS)
async def replay_decisions(
    place: Place,
    profile: Annotated[
        str | None, typer.Option("--profile", metavar="NAME", help="A routing profile, the program's or the policy's.")
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option("--weights", metavar="SCORER=W,…", help="Weights instead, like queue_depth=1,kv_headroom=2."),
    ] = None,
    picker: Annotated[
        str | None, typer.Option("--picker", help="With --weights: max, softmax or round_robin. [max]")
    ] = None,
    temperature: Annotated[float | None, typer.Option("--temperature", help="Of softmax.")] = None,
    last: Annotated[
        int,
        typer.Option(
            "--last", metavar="N", min=1, max=DECISIONS_KEPT, show_default=False, help="Of each router. [all]"
        ),
    ] = DECISIONS_KEPT,
    output: OutputOption = Format.TABLE,
) -> None:
    """Score the last decisions of every router again, under another profile: what would have gone elsewhere.

    Nothing is changed. Each decision is taken by itself, with the loads as they were when it was made.
    """
    by = _meant(place, profile, weights, picker, temperature)
    async with place.client() as client:
        told = await client.decisions.replay(profile=profile or "", by=by, last=last)
    if output in (Format.JSON, Format.YAML):
        from console.plain.data import plain

        write_data(plain(told), output)
    elif output is Format.NAME:
        for view in told.routers:
            for moved in view.moved:
                out(f"request/{literal(moved.request_id)}")
    else:
        _write(told, place, wide=output is Format.WIDE)
    for router, error in told.errors.items():
        say(f"router {literal(router)}: {literal(error)}", "bad")
    if told.silent:
        say(f"no answer in time from {', '.join(map(literal, told.silent))}", "watch")
    if told.silent or told.errors:
        raise Ended(TIMED_OUT)


def _meant(
    place: Place, profile: str | None, weights: str | None, picker: str | None, temperature: float | None
) -> RoutingProfile | None:
    """The profile that is described; None where it was named. Raises InvalidRequest."""
    from control_plane.contracts.profile_document import profile_of

    if (profile is None) == (weights is None):
        raise InvalidRequest(
            "under what? Either --profile NAME or --weights SCORER=W,…",
            param="profile",
            hint=place.command("replay-decisions --profile balanced"),
        )
    if weights is None:
        if picker is not None or temperature is not None:
            raise InvalidRequest("--picker and --temperature go with --weights", param="picker")
        return None
    values: dict[str, object] = {"weights": _weights(weights)}
    if picker is not None:
        values["picker"] = picker
    if temperature is not None:
        values["temperature"] = temperature
    return profile_of(values, "--weights")


def _weights(text: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        try:
            weight = float(value)
        except ValueError:
            weight = math.nan
        if not name.strip() or not math.isfinite(weight):
            raise InvalidRequest(f"--weights: {part.strip()!r} is not SCORER=WEIGHT", param="weights")
        found[name.strip()] = weight
    return found


def _write(told: DecisionReplay, place: Place, *, wide: bool) -> None:
    from console.plain.decision import moved_columns, share_columns, shares

    count = sum(view.decisions for view in told.routers)
    if not count:
        say("no decision is kept yet: nothing to score again")
        return
    elsewhere = sum(view.elsewhere for view in told.routers)
    drawn = told.by.picker == "softmax"
    number = f"{elsewhere:.1f}" if drawn else f"{elsewhere:.0f}"
    name = literal(told.profile) if told.profile else "these weights"
    room = width(sys.stdout)
    expected = " on average, as it is drawn" if drawn else ""
    _say(f"{number} of {figures.plural(count, 'decision')} would have gone elsewhere under {name}{expected}", room)
    moved = [each for view in told.routers for each in view.moved]
    moved.sort(key=lambda each: -each.at_unix)
    shown = moved if wide else moved[:_MOVED]
    if shown:
        out("")
        write_rows(shown, moved_columns(drawn=drawn))
        if len(moved) > len(shown):
            say(f"{len(moved) - len(shown)} more: -o wide", "quiet")
    out("")
    write_rows(shares(told.routers), share_columns())
    out("")
    partial = sum(view.partial for view in told.routers)
    if partial:
        _say(
            f"{figures.plural(partial, 'decision')} had more candidates than are kept: only the best of them were "
            "scored again",
            room,
        )
    _say(
        "each decision was scored by itself, with the loads as they were: had earlier ones gone elsewhere, later loads "
        "would have been others, which nobody can know",
        room,
    )


def _say(text: str, room: int | None) -> None:
    for line in [text] if room is None else wrap(text, room):
        out(line)
