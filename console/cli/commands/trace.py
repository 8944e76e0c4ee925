"""``trace``: which steps of a worker's engine are told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from console.cli.command import OPERATE, Place, command
from console.cli.confirm import Plan, agreed
from console.cli.effect import Effect
from console.cli.options import DryRunOption, OutputOption
from console.cli.output import Format, write_data
from console.cli.reference import bare_name
from console.plain.terminal import out
from console.text import literal
from control_plane.contracts.errors import InvalidRequest

if TYPE_CHECKING:
    from control_plane.contracts.step import TraceMode


@command("trace", OPERATE, Effect.CHANGES)
async def trace(
    place: Place,
    name: Annotated[str, typer.Argument(metavar="worker/NAME", help="The worker.")],
    mode: Annotated[list[str] | None, typer.Argument(metavar="[off|full|every N]", help="What to trace.")] = None,
    dry_run: DryRunOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Tell how a worker's step trace stands, or trace no step, all, or every n-th.

    The trace is everyone's: the console and recordings see what is traced. The engine goes on meanwhile.
    """
    from console.plain.data import plain
    from console.plain.steps import trace_words

    worker_id = bare_name(name, "workers")
    wanted, every = _mode(mode or [])
    async with place.client() as client:
        if mode and dry_run:
            before = await client.set_trace(worker_id, wanted, every, dry_run=True)
            what = f"set the trace of worker/{worker_id} to {' '.join(mode).lower()}; it is: {trace_words(before)}"
            agreed(Plan(client.target.context, what), dry_run=True, output=output)
            return
        state = await client.set_trace(worker_id, wanted, every)
    if output in (Format.JSON, Format.YAML):
        write_data(plain(state), output)
    elif output is Format.NAME:
        out(f"worker/{literal(worker_id)}")
    else:
        out(f"worker/{literal(worker_id)}: {trace_words(state)}")


def _mode(words: list[str]) -> tuple[TraceMode, int]:
    from control_plane.contracts.step import TraceMode

    match [word.lower() for word in words]:
        case []:
            return TraceMode.UNSPECIFIED, 0
        case ["off"]:
            return TraceMode.OFF, 0
        case ["full"] | ["every", "1"]:
            return TraceMode.FULL, 0
        case ["every", number] if number.isdecimal() and 2 <= int(number) < 1 << 32:
            return TraceMode.SAMPLED, int(number)
    raise InvalidRequest(f"no such trace: {' '.join(words)}; there are off, full, and every N", param="mode")
