"""Before something destructive: say where, what, and which work it touches; then ask, or need ``--yes``."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator

from console.cli.exits import FAILED, Ended
from console.plain.terminal import interactive, say
from console.text import literal
from control_plane.contracts.errors import InvalidRequest


def confirm(plan: str, *, yes: bool, repeat: str) -> None:
    """Return if it may be done. ``plan`` is what was said to happen; ``repeat`` is the command with ``--yes``."""
    if yes:
        return
    if not interactive():
        raise InvalidRequest(f"{plan}: nobody is here to confirm that", param="yes", hint=repeat)
    with _ctrl_c_interrupts():
        sys.stderr.write("Go on? [y/N] ")
        sys.stderr.flush()
        answer = sys.stdin.readline()
    if answer.strip().lower() not in ("y", "yes"):
        say("nothing was done" if answer else "\nnothing was done")
        raise Ended(FAILED)


@contextlib.contextmanager
def _ctrl_c_interrupts() -> Iterator[None]:
    """An event loop turns Ctrl-C into a cancellation, which a blocking read would never notice."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def announce(context: str, plan: str, in_flight: int, affected: tuple[str, ...] = ()) -> None:
    """Name the context, the target and the work in flight, on stderr."""
    say(f"on {literal(context)}: {literal(plan.removeprefix('would '))}")
    if in_flight:
        say(
            f"  in flight: {in_flight}"
            + (f" ({literal(', '.join(affected[:5]))}{', …' if len(affected) > 5 else ''})" if affected else "")
        )
