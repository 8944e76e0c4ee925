"""The batch step by step, as lines: a column per engine step, a row per request. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from console import figures
from console.step_burst import BEFORE, burst, of_note
from console.text import fit, literal, pad
from control_plane.contracts.step import EngineStep, StepKind

LEGEND: Final = "░ ▒ prompt (▒: its last part)  █ decode  ✓ end  × preempted  · waits"

_KINDS: Final = {StepKind.PREFILL: "░", StepKind.LAST_PREFILL: "▒", StepKind.DECODE: "█"}
_ENDS: Final = {"abort": "⊘", "error": "✗"}
_LEVELS: Final = "▁▂▃▄▅▆▇█"
_NAME: Final = 15
_MOST_ROWS: Final = 16


def step_grid(steps: Sequence[EngineStep], room: int) -> Iterator[str]:
    """What the engine did since it was last without work: of these steps as many as there is room for around the first
    of note, with how long each took and how many tokens it had."""
    shown = _in_sight(steps, max(1, room - _NAME - 1))
    if not shown:
        yield "no step was made yet"
        return
    total = figures.plural(len(shown), "step")
    yield fit(f"step {shown[0].step} to {shown[-1].step}, {total}: a column is a step", room)
    marks = _marks(shown)
    for name, row in list(marks.items())[:_MOST_ROWS]:
        yield f"{pad(fit(literal(name), _NAME), _NAME)} {''.join(row).rstrip()}"
    if len(marks) > _MOST_ROWS:
        yield f"and {len(marks) - _MOST_ROWS} more"
    took = [step.schedule_s + step.execute_s for step in shown]
    yield f"{pad('took', _NAME)} {_levels(took)}"
    yield f"{pad('tokens', _NAME)} {_levels([float(step.tokens) for step in shown])}"
    middle, most = sorted(took)[len(took) // 2], max(step.tokens for step in shown)
    yield fit(
        f"a step took {figures.seconds(middle)} (the median) to {figures.seconds(max(took))}, and had up to "
        f"{figures.plural(most, 'token')}",
        room,
    )
    yield fit(LEGEND, room)


def _in_sight(steps: Sequence[EngineStep], most: int) -> Sequence[EngineStep]:
    """Those since the engine was last without work; where they are more than ``most``, from a little before the one of
    note."""
    begin = burst(steps)
    begin = max(begin, min(of_note(steps, begin) - min(BEFORE, most // 4), len(steps) - most))
    return steps[begin : begin + most]


def _marks(shown: Sequence[EngineStep]) -> dict[str, list[str]]:
    """By request, in the order in which they were seen. What a step did last with one hides what it did before."""
    marks: dict[str, list[str]] = {}
    for index, step in enumerate(shown):
        told = [(row.request_id, _KINDS.get(row.kind, "█")) for row in step.rows]
        told += [(each.request_id, "·") for each in step.waiting]
        told += [(name, "×") for name in step.preempted]
        told += [(each.request_id, _ENDS.get(each.reason, "✓")) for each in step.finished]
        for name, mark in told:
            marks.setdefault(name, [" "] * len(shown))[index] = mark
    return marks


def _levels(values: Sequence[float]) -> str:
    top = max(values) or 1.0
    return "".join(_LEVELS[min(len(_LEVELS) - 1, int(value / top * len(_LEVELS)))] for value in values)
