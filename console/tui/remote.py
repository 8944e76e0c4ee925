"""The live platform of a home, as a feed and an operator."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

from console.client import OperatorClient
from console.home import Home, Target, Unreachable
from console.tui.collector import closing
from control_plane.contracts.access import KeyList
from control_plane.contracts.decision import DecisionView
from control_plane.contracts.fleet import ActionResult, DrainProgress, Event, Snapshot
from control_plane.contracts.policy import Policy
from control_plane.contracts.step import BlockSnapshot, StepFrame, TraceMode, TraceState
from control_plane.contracts.timeline import Timeline

INTERVAL_S = 0.5

LAST_STEPS = 256
"""Of the steps before one looks: a few screens of them. They are read in the loop that draws."""


class Remote:
    """Finds the platform again at every ``watch``: the next ``up`` may listen on another port, with another key."""

    def __init__(self, home: Path | None, target: Callable[[], Target] | None = None, place: str | None = None) -> None:
        """``target``: where it is and by whose key, the home's own where nothing is said. ``place``: its name for
        people, where that is not the home."""
        self._home = Home.find(home)
        self._place = place or self._home.shown
        self._target = target or self._home.target
        self._client: OperatorClient | None = None

    @property
    def place(self) -> str:
        return self._place

    def find(self) -> None:
        """Raises Unreachable or Unauthenticated when there is nothing to connect to."""
        self._target()

    async def watch(self) -> AsyncIterator[Snapshot]:
        await self.close()
        self._client = client = OperatorClient(self._target())
        async with closing(client.watch(INTERVAL_S, finished_requests=True)) as stream:
            async for snapshot in stream:
                yield snapshot

    def events(self) -> AsyncIterator[Event]:
        return self._connected().events()

    def logs(self, target: str, tail_lines: int) -> AsyncIterator[bytes]:
        return self._connected().logs(target, tail_lines=tail_lines, follow=True)

    def steps(self, worker_id: str) -> AsyncIterator[StepFrame]:
        return self._connected().watch_steps(worker_id, last_steps=LAST_STEPS)

    async def blocks(self, worker_id: str) -> BlockSnapshot:
        return await self._connected().blocks(worker_id)

    async def timeline(self, request_id: str) -> Timeline:
        return await self._connected().timeline(request_id)

    async def explain(self, request_id: str) -> tuple[DecisionView, ...]:
        return (await self._connected().decisions.explain(request_id)).decisions

    def decisions(self) -> AsyncIterator[tuple[DecisionView, ...]]:
        return self._connected().decisions.follow()

    async def keys(self) -> KeyList:
        return await self._connected().access.keys()

    async def policy(self) -> Policy:
        return await self._connected().access.policy()

    async def set_trace(self, worker_id: str, mode: TraceMode, every: int = 1) -> TraceState:
        return await self._connected().set_trace(worker_id, mode, every)

    async def close(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            await client.close()

    async def cordon(self, worker_id: str, *, dry_run: bool = False) -> ActionResult:
        return await self._connected().cordon(worker_id, dry_run=dry_run)

    async def uncordon(self, worker_id: str, *, dry_run: bool = False) -> ActionResult:
        return await self._connected().uncordon(worker_id, dry_run=dry_run)

    def drain(self, worker_id: str, *, dry_run: bool = False) -> AsyncIterator[DrainProgress]:
        return self._connected().drain(worker_id, dry_run=dry_run)

    async def scale(self, pool: str, replicas: int, *, dry_run: bool = False) -> ActionResult:
        return await self._connected().scale(pool, replicas, dry_run=dry_run)

    async def cancel(self, request_id: str, *, dry_run: bool = False) -> ActionResult:
        return await self._connected().cancel(request_id, dry_run=dry_run)

    def _connected(self) -> OperatorClient:
        if self._client is None:
            raise Unreachable("not connected to the control plane")
        return self._client
