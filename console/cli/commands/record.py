"""``record``: what the platform shows, into a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from console import figures
from console.cli.command import LOOK, Place, command
from console.cli.durations import duration
from console.cli.effect import Effect
from console.cli.exits import INTERRUPTED, Ended
from console.plain.terminal import say
from console.text import literal
from control_plane.contracts.paths import expanded

if TYPE_CHECKING:
    import asyncio

    from console.cli.attend import Interrupts
    from console.record.recorder import Recorder, Tally


@command("record", LOOK, Effect.RUNS)
async def record(
    place: Place,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A new one, or a recording to go on with.")],
    length: Annotated[
        str, typer.Option("--duration", metavar="DURATION", help="End after; 0 goes on until Ctrl-C.")
    ] = "0",
    steps: Annotated[bool, typer.Option("--steps/--no-steps", help="With every engine's steps.")] = True,
    force: Annotated[bool, typer.Option("--force", help="Write over what is in the file.")] = False,
) -> None:
    """Record workers, requests, events, decisions and engine steps, for inferdeck replay.

    Goes on while workers crash, gateways restart or the control plane is away. No prompt, output or key is recorded.
    """
    import asyncio
    import time

    from console.cli.attend import Interrupts
    from console.cli.version import version_of
    from console.home import shown_path
    from console.record.file_header import Session
    from console.record.recorder import Recorder
    from console.record.writer import RecordingStopped, RecordingWriter

    limit = duration(length, "--duration")
    path = path_of(file)
    where = place.server or place.home.shown
    async with place.client() as client:
        snapshot = await client.get_snapshot()
    begun, mono = time.time(), time.monotonic()
    recorded = ("snapshots", "requests", "events", "decisions", *(("steps",) if steps else ()))
    session = Session(version_of("inferdeck"), snapshot.control_plane_id, where, begun, recorded)
    name = literal(shown_path(path))
    with RecordingWriter.open(path, session, force=force) as writer, Interrupts().caught() as interrupts:
        before = writer.bytes
        if writer.cut_bytes:
            say(f"{name}: its last {figures.size(writer.cut_bytes)} were not whole, and are cut off", "watch")
        say(f"recording {literal(where)} {'on into' if writer.last_unix else 'into'} {name}", "quiet")
        recorder = Recorder(
            place.client,
            writer,
            session,
            steps=steps,
            clock=lambda: begun + time.monotonic() - mono,
            tell=lambda text: say(literal(text), "watch"),
        )
        ending = asyncio.Event()
        waiting = asyncio.create_task(_end(recorder, ending, interrupts, limit))
        try:
            await recorder.run(ending)
            await recorder.finish("interrupted" if interrupts.first is not None else "the time was over")
        except RecordingStopped as stopped:
            stopped.hint = place.command("replay", file)
            raise
        finally:
            waiting.cancel()
            say(told(recorder.tally, writer.bytes - before, time.monotonic() - mono, name))
    if interrupts.first is not None and limit:
        raise Ended(INTERRUPTED)


def path_of(file: str) -> Path:
    return expanded(file)


def told(tally: Tally, size: int, seconds: float, name: str) -> str:
    """What was recorded, on one line."""
    counts = [
        figures.plural(tally.snapshots, "snapshot"),
        figures.plural(tally.steps, "step"),
        figures.plural(tally.events, "event"),
        figures.plural(tally.decisions, "decision"),
        *([figures.plural(tally.gaps, "gap")] if tally.gaps else []),
    ]
    pace = f"{figures.size(size / seconds)}/s" if seconds > 0 else figures.NONE
    return (
        f"{name}: {figures.plural(tally.records, 'record')} in {figures.seconds(seconds)} "
        f"({', '.join(counts)}), {figures.size(size)}, {pace}"
    )


async def _end(recorder: Recorder, ending: asyncio.Event, interrupts: Interrupts, limit: float) -> None:
    """Set when somebody interrupts, or when the time since the first snapshot is over."""
    import asyncio
    import contextlib

    interrupted = asyncio.create_task(interrupts.next())
    heard = asyncio.create_task(recorder.heard.wait())
    try:
        await asyncio.wait({interrupted, heard}, return_when=asyncio.FIRST_COMPLETED)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit or None):
                await interrupted
        ending.set()
    finally:
        interrupted.cancel()
        heard.cancel()
