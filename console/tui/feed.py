"""What the console needs from a platform, so that it can be driven by a live one or by one made in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from control_plane.contracts.access import KeyList
from control_plane.contracts.decision import DecisionView
from control_plane.contracts.fleet import ActionResult, DrainProgress, Event, Snapshot
from control_plane.contracts.policy import Policy
from control_plane.contracts.step import BlockSnapshot, StepFrame, TraceMode, TraceState
from control_plane.contracts.timeline import Timeline


class Feed(Protocol):
    """What the platform tells. Iterators raise an ``InferDeckError`` when they break, and can be asked for anew."""

    @property
    def place(self) -> str:
        """Where the platform is, for people."""
        ...

    def watch(self) -> AsyncIterator[Snapshot]:
        """A snapshot now, then after every change, at least every few seconds; connects by itself."""
        ...

    def events(self) -> AsyncIterator[Event]:
        """The events so far, oldest first; ends."""
        ...

    def logs(self, target: str, tail_lines: int) -> AsyncIterator[bytes]:
        """The last lines of a log, then what is written to it: pieces, not aligned to anything."""
        ...

    def steps(self, worker_id: str) -> AsyncIterator[StepFrame]:
        """What a worker's engine did and does: first a frame with ``base`` (the block tables before its steps), the
        last steps there were, then each new one. Ends or breaks with its worker: ask anew, and it begins anew."""
        ...

    async def blocks(self, worker_id: str) -> BlockSnapshot:
        """A worker's whole KV cache now."""
        ...

    async def timeline(self, request_id: str) -> Timeline:
        """Where a request's time went, with its engine's steps. Raises NotFound for one that is not known any more."""
        ...

    async def explain(self, request_id: str) -> tuple[DecisionView, ...]:
        """Every decision about a request, oldest first. Raises NotFound for one that is not known any more."""
        ...

    def decisions(self) -> AsyncIterator[tuple[DecisionView, ...]]:
        """The last decisions, then the new ones as they come; oldest first. May end: ask anew, and it begins anew."""
        ...

    async def keys(self) -> KeyList:
        """Callers' keys now: what they may do, never the keys themselves."""
        ...

    async def policy(self) -> Policy:
        """The policy in force."""
        ...

    async def close(self) -> None: ...


class Operator(Protocol):
    """What an operator can do. Every call raises an ``InferDeckError`` with the platform's own words."""

    async def cordon(self, worker_id: str, *, dry_run: bool = False) -> ActionResult: ...

    async def uncordon(self, worker_id: str, *, dry_run: bool = False) -> ActionResult: ...

    def drain(self, worker_id: str, *, dry_run: bool = False) -> AsyncIterator[DrainProgress]: ...

    async def scale(self, pool: str, replicas: int, *, dry_run: bool = False) -> ActionResult: ...

    async def cancel(self, request_id: str, *, dry_run: bool = False) -> ActionResult: ...

    async def set_trace(self, worker_id: str, mode: TraceMode, every: int = 1) -> TraceState: ...
