"""What is to be seen of a scheduler in one step, and the way a trace is played to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from control_plane.contracts.kv_events import KvBatch
from control_plane.contracts.step import BlockSnapshot, EngineStep
from tests.parity.trace import Arrival, Trace

MOST_STEPS = 3000
"""A trace that is not over by then is compared as far as this."""

SNAPSHOT_EVERY = 8
"""Steps."""


@dataclass(frozen=True, slots=True)
class SeenRow:
    """One request's part of the batch. ``new_blocks`` continue its table, or are all of it when it joins or resumes."""

    request_id: str
    tokens: int
    computed: int
    output_tokens: int
    cached_tokens: int
    joined: bool
    resumed: bool
    new_blocks: tuple[int, ...]
    blocks: int


@dataclass(frozen=True, slots=True)
class Seen:
    """What a completed step shows, and what was scheduled since the one before it was completed: with
    ``async_scheduling`` that is the next one.

    ``published`` is the step as watchers get it, without its times, and ``snapshot`` the whole cache as they may
    ask for it, taken now and then. The rest is what the scheduler itself holds: ``counts`` are (used, cached_free,
    free) blocks, after scheduling and after the step; ``finished`` are (id, reason, output tokens, freed blocks);
    ``tables`` (id, computed, blocks) of who still runs, in their order; ``cached_free`` the free blocks with content,
    the next to lose it first. ``kv_batch`` is what the step told of the prefix cache, and ``told``
    how many blocks can be hit by all that was told."""

    published: EngineStep | None
    snapshot: BlockSnapshot | None

    rows: tuple[SeenRow, ...]
    preempted: frozenset[str]
    waiting: tuple[tuple[str, int, int, bool], ...]
    scheduled_counts: tuple[int, int, int]
    finished: tuple[tuple[str, str, int, int], ...]
    counts: tuple[int, int, int]
    tables: tuple[tuple[str, int, tuple[int, ...]], ...]
    shared: tuple[tuple[int, int], ...]
    cached_free: tuple[int, ...]
    reset: bool | None = None
    kv_batch: KvBatch | None = None
    told: int = 0


class Side(Protocol):
    """A scheduler with made-up tokens for a model."""

    def add(self, arrival: Arrival) -> None: ...

    def abort(self, request_id: str) -> None: ...

    def reset(self) -> bool: ...

    def schedule(self) -> bool:
        """Whether it runs anything."""
        ...

    def complete(self, reset: bool | None) -> Seen:
        """The first of those that were scheduled and not completed yet."""
        ...

    def idle(self) -> bool: ...


def play(trace: Trace, side: Side) -> Iterator[Seen]:
    """As vLLM's engine core goes on (``step``, ``step_with_batch_queue``): while fewer than ``depth`` are in flight,
    the next one is scheduled before the first has ended; one that runs nothing holds up nobody."""
    flying = 0
    for step in range(MOST_STEPS):
        if step > trace.last_event and side.idle():
            for _ in range(flying):
                yield side.complete(None)
            return
        for arrival in trace.arrivals:
            if arrival.step == step:
                side.add(arrival)
        for cancel in trace.cancels:
            if cancel.step == step and not cancel.in_flight:
                side.abort(cancel.request_id)
        reset = side.reset() if step in trace.resets else None
        runs = side.schedule()
        flying += 1
        for cancel in trace.cancels:
            if cancel.step == step and cancel.in_flight:
                side.abort(cancel.request_id)
        if not runs or flying == trace.config.depth:
            flying -= 1
            yield side.complete(reset)
