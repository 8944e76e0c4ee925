"""``replay``: a recording on the console, or as data."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from console import figures
from console.cli.command import LOOK, Place, command
from console.cli.effect import Effect
from console.cli.exits import TIMED_OUT, Ended
from console.cli.options import OutputOption
from console.cli.output import Format, write_data
from console.cli.reach import Reach
from console.event_message import event_message
from console.plain.data import plain, to_json, to_yaml
from console.plain.terminal import is_terminal, out, say
from console.text import literal
from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.paths import expanded

if TYPE_CHECKING:
    from console.record.recording import Entry, Recording
    from console.record.summary import Summary

SLOWEST, FASTEST = 0.25, 16.0


@command("replay", LOOK, Effect.LOOKS, Reach.HOME)
def replay(
    place: Place,
    file: Annotated[str, typer.Argument(metavar="FILE", help="What inferdeck record wrote.")],
    at: Annotated[str, typer.Option("--at", metavar="WHEN", help="90s, 1:30, 50%, 14:02:11 or end.")] = "start",
    speed: Annotated[
        float, typer.Option("--speed", metavar="N", min=SLOWEST, max=FASTEST, help="Times real time.")
    ] = 1.0,
    paused: Annotated[bool, typer.Option("--paused", help="Stand still at first.")] = False,
    info: Annotated[bool, typer.Option("--info", help="Say what is in the file, and what of it is damaged.")] = False,
    printed: Annotated[bool, typer.Option("--print", help="Print the records instead.")] = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Open the console on a recording: play, pause, seek, step. No platform and no engine is needed.

    With -o json it prints one record a line, with --print a line for people; with these and --info it exits 5 where a
    part of the file cannot be read.
    """
    from console.record.reader import RecordingReader
    from console.record.recording import Recording

    path = expanded(file)
    if info:
        from console.home import shown_path
        from console.record.summary import summary

        with RecordingReader.open(path) as reader:
            _tell(summary(Recording(reader), shown_path(path)), output)
            whole = not reader.damages
    elif printed or output is not Format.TABLE:
        with RecordingReader.open(path) as reader:
            _print(Recording(reader), output)
            for damage in reader.damages:
                say(f"{literal(file)}: {damage.what}: {figures.size(damage.length)} at {damage.at}", "watch")
            whole = not reader.damages
    else:
        if not is_terminal(sys.stdout) or not is_terminal(sys.stdin):
            RecordingReader.open(path).close()  # a file that cannot be read is the first thing to know
            raise InvalidRequest("a replay needs a terminal", hint=place.command("replay -o json", file))
        from console.tui.replay.app import run

        raise Ended(run(path, at=at, speed=speed, playing=not paused))
    if not whole:
        raise Ended(TIMED_OUT)


def data_of(entry: Entry) -> dict[str, Any]:
    return {
        "unix": entry.unix,
        "kind": _KINDS[type(entry.value).__name__],
        "subject": entry.subject or None,
        "repeats": entry.anew,
        "value": plain(entry.value),
    }


_KINDS = {
    "Session": "session",
    "Snapshot": "snapshot",
    "StepFrame": "steps",
    "Event": "event",
    "DecisionView": "decision",
    "Gap": "gap",
    "End": "end",
}


def _print(recording: Recording, output: Format) -> None:
    for entry in recording.entries():
        if output is Format.JSON:
            out(to_json(data_of(entry), indent=None))
        elif output is Format.YAML:
            out(to_yaml([data_of(entry)]))
        elif output is Format.NAME:
            out(_KINDS[type(entry.value).__name__])
        else:
            out(literal(line(entry)))


def line(entry: Entry) -> str:
    """An entry in a few words."""
    from console.plain.resources import clock
    from console.record.file_header import Session
    from console.record.notes import End, Gap
    from control_plane.contracts.decision import DecisionView
    from control_plane.contracts.fleet import Event, Snapshot

    match entry.value:
        case Session() as session:
            words = f"InferDeck {session.inferdeck} on {session.place}: {', '.join(session.recorded)}"
        case Snapshot() as snapshot:
            active = sum(request.phase.active for request in snapshot.requests)
            workers = " ".join(f"{worker.id}={worker.phase.name.lower()}" for worker in snapshot.workers)
            words = f"{figures.plural(active, 'request')} active · {workers}"
        case Event() as event:
            words = f"{event.severity:<7}  {event.subject}  {event_message(event)}"
        case DecisionView() as decision:
            words = f"request/{decision.request_id}  attempt {decision.attempt} → {decision.chosen or 'the queue'}"
        case Gap(reason) | End(reason):
            words = f"{entry.subject}  {reason}".strip()
        case frame:
            numbers = [step.step for step in frame.steps]
            span = f"{numbers[0]}–{numbers[-1]}" if numbers else "none"
            words = f"{entry.subject}  {span}" + (", block tables" if frame.base is not None else "")
    return f"{clock(entry.unix)}  {_KINDS[type(entry.value).__name__]:<8}  {words}"


def _tell(found: Summary, output: Format) -> None:
    if output in (Format.JSON, Format.YAML):
        write_data({**plain(found), "span_s": found.span_s}, output)
        return
    for label, words in info_lines(found):
        out(f"{label:<9} {literal(words)}")


def info_lines(found: Summary) -> list[tuple[str, str]]:
    """For people: label and text."""
    import time

    from console.plain.resources import clock

    first = found.sessions[0] if found.sessions else None
    kinds = ", ".join(f"{count} {kind}" for kind, count in found.kinds.items())
    pace = f" · {figures.size(found.bytes / found.span_s)}/s" if found.span_s > 0 else ""
    ended = f"the last one ended: {found.ended}" if found.ended else "the last one says no end"
    day = time.strftime("%Y-%m-%d", time.localtime(found.first_unix))
    return [
        ("file", f"{found.file} · format {found.format} · {figures.size(found.bytes)}"),
        ("time", f"{day} {clock(found.first_unix)} to {clock(found.last_unix)}"),
        ("span", figures.seconds(found.span_s) + pace),
        ("platform", f"{first.place} · {first.control_plane_id} · InferDeck {first.inferdeck}" if first else "–"),
        ("recorded", ", ".join(first.recorded) if first else "–"),
        ("sessions", f"{len(found.sessions)}, {ended}"),
        ("records", f"{figures.count(found.records)} in {figures.plural(found.frames, 'frame')}: {kinds}"),
        ("workers", ", ".join(found.workers) or "none"),
        ("requests", figures.count(found.requests)),
        ("steps", ", ".join(f"{worker} {figures.count(steps)}" for worker, steps in found.steps.items()) or "none"),
        ("events", figures.count(found.events)),
        ("decisions", figures.count(found.decisions)),
        *((("unread", f"{found.unread} records say nothing to this version"),) if found.unread else ()),
        *(("gap", f"{clock(gap.unix)} {gap.worker or 'platform'}: {gap.reason}") for gap in found.gaps),
        *(("damage", f"{damage.what}: {figures.size(damage.length)} at {damage.at}") for damage in found.damages),
    ]
