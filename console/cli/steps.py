"""Following an engine's steps on the command line."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import sys
from collections.abc import Iterator

from console.cli.command import Place
from console.cli.exits import FAILED, Ended
from console.cli.output import Format
from console.plain.data import plain, to_json, to_yaml
from console.plain.steps import LEGEND, heading, lost_line, step_line, trace_words
from console.plain.terminal import flush, is_terminal, out, paint, say, width
from console.text import literal
from control_plane.contracts.step import StepFrame, TraceMode

SHOWN_FIRST = 10
"""Steps that have been, before those to come."""


async def follow(place: Place, worker_id: str, since: int, count: int, output: Format) -> None:
    """A line a step until ``count`` are told (0: without end), the worker ends, or nobody reads any more."""
    async with place.client() as client:
        state = await client.set_trace(worker_id, TraceMode.UNSPECIFIED)
        if not state.unavailable and state.mode is TraceMode.OFF:
            say(f"the trace is off: {place.command(f'trace worker/{literal(worker_id)} full')} turns it on", "watch")
        begin = since or max(1, state.step - SHOWN_FIRST + 1)
        shown = _Lines(output)
        with _reader_watched():
            async with contextlib.aclosing(client.watch_steps(worker_id, begin)) as frames:
                async for frame in frames:
                    if frame.trace.unavailable:
                        say(trace_words(frame.trace))
                        raise Ended(FAILED)
                    if shown.take(frame, count):
                        return
        say(f"worker/{literal(worker_id)} ended")


class _Lines:
    def __init__(self, output: Format) -> None:
        self._output = output
        self._told = 0
        self._dropped: int | None = None
        if output in (Format.TABLE, Format.WIDE):
            out(paint(heading(), "title"))
            if is_terminal(sys.stderr):
                say(LEGEND, "quiet")

    def take(self, frame: StepFrame, count: int) -> bool:
        """Print a frame; whether that was all."""
        lost = frame.trace.dropped - (frame.trace.dropped if self._dropped is None else self._dropped)
        self._dropped = frame.trace.dropped
        table = self._output in (Format.TABLE, Format.WIDE)
        if lost and table:
            out(lost_line(lost))
        for step in frame.steps:
            if table:
                out(step_line(step, width(sys.stdout)))
            elif self._output is Format.NAME:
                out(f"step/{step.step}")
            else:
                data = plain(step)
                out(to_yaml([data]) if self._output is Format.YAML else to_json(data, indent=None))
            self._told += 1
            if count and self._told >= count:
                return True
        flush()
        return False


@contextlib.contextmanager
def _reader_watched() -> Iterator[None]:
    """End as soon as whoever reads our pipe has left: an idle engine writes nothing by which that would be noticed."""
    task = asyncio.current_task()
    try:
        handle = sys.stdout.fileno()
        watched = stat.S_ISFIFO(os.fstat(handle).st_mode)
    except (OSError, ValueError):  # closed, or no file
        watched = False
    if task is None or not watched:
        yield
        return
    left = False

    def gone() -> None:
        nonlocal left
        left = True
        loop.remove_reader(handle)
        task.cancel()

    loop = asyncio.get_running_loop()
    loop.add_reader(handle, gone)
    try:
        yield
    except asyncio.CancelledError:
        if left and not task.uncancel():
            raise BrokenPipeError from None
        raise
    finally:
        loop.remove_reader(handle)
