"""Before a change: say where, what, and which work it touches; then ask, where something ends by it.

A dry run is the same plan without the last step.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from console.cli.exits import FAILED, Ended
from console.cli.output import Format, write_data
from console.plain.terminal import interactive, out, say
from console.text import literal
from control_plane.contracts.errors import InvalidRequest

MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Plan:
    """What a verb is about to do. ``what`` is an order, like "drain worker/w1"; ``context`` where it is done.

    ``ends``: something is ended, cut off or lost by it, so it is asked for. ``in_flight`` are the calls that it
    touches, ``affected`` the names of some. ``notes`` are told beside it, a line each.
    """

    context: str
    what: str
    ends: bool = False
    in_flight: int = 0
    affected: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def agreed(plan: Plan, *, dry_run: bool, yes: bool = False, repeat: str = "", output: Format = Format.TABLE) -> bool:
    """Tell the plan; whether it is to be done now, which a dry run is not.

    ``repeat`` is the command with ``--yes``. Raises InvalidRequest where nobody can be asked, Ended for a no.
    """
    what = plan.what.removeprefix("would ")
    if dry_run:
        if output in (Format.JSON, Format.YAML):
            told = {"dry_run": True, "would": what, "ends": plan.ends, "in_flight": plan.in_flight}
            write_data({**told, "affected": list(plan.affected), "notes": list(plan.notes)}, output)
        else:
            out(f"would {literal(what)} (dry run)")
            _tell_beside(plan)
        return False
    if plan.ends:
        say(f"on {literal(plan.context)}: {literal(what)}")
    _tell_beside(plan)
    if plan.ends and not yes:
        _ask(what, repeat)
    return True


def _tell_beside(plan: Plan) -> None:
    if plan.in_flight:
        named = literal(", ".join(plan.affected[:MOST_NAMED])) + (", …" if len(plan.affected) > MOST_NAMED else "")
        say(f"  in flight: {plan.in_flight}" + (f" ({named})" if plan.affected else ""))
    for note in plan.notes:
        say(f"  {literal(note)}", "watch")


def _ask(what: str, repeat: str) -> None:
    if not interactive():
        raise InvalidRequest(f"{what}: nobody is here to confirm that", param="yes", hint=repeat)
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
