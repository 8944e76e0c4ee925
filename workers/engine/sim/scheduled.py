"""One step as the simulated scheduler decided it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from control_plane.contracts.step import StepKind, StepRow, StepWaiting
from workers.engine.sim.request_state import RequestState

Row = tuple[str, StepKind, int, int, int, int, int, int, bool, bool, tuple[int, ...], int]
"""The fields of a ``StepRow``, in its order: steps that nobody watches need no more."""

Head = tuple[str, int, int, bool]
"""The fields of a ``StepWaiting``."""


class Scheduled:
    """``step`` counts from 1; ``now`` is what ``schedule`` was given; ``tokens`` are those of the whole batch.

    Without a batch no model runs: such a step only tells who was preempted, or has ended since the last one.
    """

    def __init__(
        self,
        step: int,
        now: float,
        tokens: int = 0,
        batch: Sequence[Row] = (),
        states: Sequence[RequestState] = (),
        preempted: Sequence[str] = (),
        heads: Sequence[Head] = (),
        waiting_total: int = 0,
    ) -> None:
        self.step: Final = step
        self.now: Final = now
        self.tokens: Final = tokens
        self.batch: Final = batch
        self.states: Final = states
        self.preempted: Final = tuple(preempted)
        self.heads: Final = heads
        self.waiting_total: Final = waiting_total

    @property
    def due(self) -> tuple[str, ...]:
        """Those whose token this step computes, in the batch's order; the others still prefill."""
        return tuple(state.request_id for state in self.states)

    @property
    def rows(self) -> tuple[StepRow, ...]:
        """The batch, in the scheduler's order."""
        return tuple(StepRow(*row) for row in self.batch)

    @property
    def waiting(self) -> tuple[StepWaiting, ...]:
        """The head of the queue that this step left."""
        return tuple(StepWaiting(*head) for head in self.heads)


def head_of(state: RequestState) -> Head:
    return (state.request_id, len(state.tokens), state.priority, state.preempted)
