"""The moment that a lesson's observations begin at, and what came since."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass

from console.client import OperatorClient
from control_plane.contracts.errors import InferDeckError
from control_plane.contracts.fleet import Event, RequestView, Snapshot, WorkerPhase
from control_plane.contracts.step import BlockSnapshot, EngineStep, TraceMode


@dataclass(frozen=True, slots=True)
class Inside:
    """Of each worker that is ready: its engine's steps since the mark, and its blocks now. ``lost_steps``: so many of
    them, of all workers, were not kept."""

    steps: Mapping[str, tuple[EngineStep, ...]]
    blocks: Mapping[str, BlockSnapshot]
    lost_steps: int


class Mark:
    """At first, the platform's beginning."""

    def __init__(self) -> None:
        self._event = 0
        self._steps: dict[str, tuple[str, int]] = {}
        self._requests: frozenset[str] = frozenset()

    def restarted(self) -> None:
        """Events and steps are counted anew."""
        self._event = 0
        self._steps = {}

    async def set(self, client: OperatorClient) -> None:
        """From now on."""
        snapshot = await client.get_snapshot(finished_requests=True)
        self._requests = frozenset(request.id for request in snapshot.requests)
        self._event = max((event.seq for event in snapshot.events), default=0)
        self._steps = {}
        for worker in snapshot.workers:
            if worker.phase is WorkerPhase.READY and worker.info is not None:
                with contextlib.suppress(InferDeckError):
                    told = await client.set_trace(worker.id, TraceMode.UNSPECIFIED)
                    self._steps[worker.id] = (worker.info.instance_id, told.step)

    def requests(self, snapshot: Snapshot) -> tuple[RequestView, ...]:
        """Those that came since."""
        return tuple(request for request in snapshot.requests if request.id not in self._requests)

    async def events(self, client: OperatorClient) -> tuple[Event, ...]:
        async with aclosing(client.events(self._event)) as events:
            return tuple([event async for event in events])

    async def inside(self, client: OperatorClient, snapshot: Snapshot) -> Inside:
        steps: dict[str, tuple[EngineStep, ...]] = {}
        blocks: dict[str, BlockSnapshot] = {}
        lost = 0
        for worker in snapshot.workers:
            if worker.phase is not WorkerPhase.READY or worker.info is None:
                continue
            instance, step = self._steps.get(worker.id, ("", 0))
            begin = step + 1 if instance == worker.info.instance_id else 1
            with contextlib.suppress(InferDeckError):  # it may die in the middle of a lesson about that
                steps[worker.id], missed = await _steps_since(client, worker.id, begin)
                blocks[worker.id] = await client.blocks(worker.id)
                lost += missed
        return Inside(steps, blocks, lost)


async def _steps_since(client: OperatorClient, worker_id: str, begin: int) -> tuple[tuple[EngineStep, ...], int]:
    """The steps from ``begin`` on, and how many of them were not kept."""
    found: list[EngineStep] = []
    lost = 0
    async with aclosing(client.watch_steps(worker_id, begin, live=False)) as frames:
        async for frame in frames:
            found += (step for step in frame.steps if step.step >= begin)
            lost = max(lost, frame.trace.first_kept - begin)
    return tuple(found), lost
