"""The published record of a simulated step."""

from __future__ import annotations

from collections.abc import Sequence

from control_plane.contracts.step import EngineStep, StepFinished
from workers.engine.sim.block_pool import BlockCounts
from workers.engine.sim.scheduled import Scheduled


def engine_step(
    scheduled: Scheduled,
    finished: Sequence[StepFinished],
    counts: BlockCounts,
    *,
    started_unix: float,
    schedule_s: float = 0.0,
    execute_s: float = 0.0,
    dropped: int = 0,
) -> EngineStep:
    """``finished`` is what ``complete`` returned, and ``counts`` the blocks after it; durations are seconds."""
    return EngineStep(
        step=scheduled.step,
        started_unix=started_unix,
        schedule_s=schedule_s,
        execute_s=execute_s,
        tokens=scheduled.tokens,
        rows=scheduled.rows,
        waiting=scheduled.waiting,
        waiting_total=scheduled.waiting_total,
        preempted=scheduled.preempted,
        finished=tuple(finished),
        total_blocks=sum(counts),
        used_blocks=counts.used,
        cached_free_blocks=counts.cached_free,
        free_blocks=counts.free,
        dropped=dropped,
        batch=len(scheduled.batch),
    )
