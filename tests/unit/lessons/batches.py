"""A traced engine, made by hand: what two calls did in its steps."""

from __future__ import annotations

from typing import Any

from control_plane.contracts.fleet import WorkerPhase, WorkerView
from control_plane.contracts.step import BlockSnapshot, EngineStep, StepFinished, StepKind, StepRow
from control_plane.contracts.worker import ModelInfo, WorkerInfo
from lessons.observation import Observation
from tests.unit.lessons.seen import call, observation

PART, LAST, DECODE = StepKind.PREFILL, StepKind.LAST_PREFILL, StepKind.DECODE


def row(name: str, kind: StepKind, tokens: int, computed: int, **more: Any) -> StepRow:
    return StepRow(name, kind, tokens, computed, 40, **more)


def step(number: int, *rows: StepRow, took: float = 0.1, **more: Any) -> EngineStep:
    return EngineStep(number, 0.0, 0.0, took, sum(each.tokens for each in rows), rows, **more)


# Blocks of 16. "a" has a prompt of 40 in two chunks, "b" begins with the same 32 and joins later; step 5 lacks "a".
STEPS = (
    step(1, row("a", PART, 24, 0, joined=True, new_blocks=(4, 5), blocks=2), took=0.3),
    step(2, row("a", LAST, 16, 24, new_blocks=(6,), blocks=3), took=0.1),
    step(3, row("a", DECODE, 1, 40, blocks=3), took=0.05),
    step(
        4,
        row("a", DECODE, 1, 41, blocks=3),
        row("b", LAST, 8, 32, joined=True, cached_tokens=32, new_blocks=(4, 5, 9), blocks=3),
    ),
    step(5, row("b", DECODE, 1, 40, blocks=3), finished=(StepFinished("b", "length", 2, 3),), took=0.05),
    step(6, row("a", DECODE, 1, 42, blocks=3), took=0.15),
    step(
        7, row("a", DECODE, 7, 43, new_blocks=(8,), blocks=4), took=0.1, finished=(StepFinished("a", "length", 9, 4),)
    ),
)
MODEL = ModelInfo("m", max_context=100, max_num_seqs=2)
CALLS = (
    call("long", request_id="a", output_tokens=9),
    call("short", request_id="b", output_tokens=2),
    call("late", output_tokens=5),
)


def traced(**more: Any) -> Observation:
    given: dict[str, Any] = {
        "calls": CALLS,
        "steps": {"w-1": STEPS},
        "blocks": {"w-1": BlockSnapshot(7, block_size=16, total_blocks=20, cached_free_blocks=6)},
        "workers": (WorkerView("w-1", "w", WorkerPhase.READY, info=WorkerInfo("w-1", "i", 1, model=MODEL)),),
    }
    return observation(**given | more)
