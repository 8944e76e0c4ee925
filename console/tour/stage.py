"""What the steps of the tour share: where the platform is, how to watch and ask it, and how to say something."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from console.api_access import trust_of
from console.client import OperatorClient
from console.completion import Answer
from console.facts import base_url
from console.home import Home, State, read_key
from console.http import Connections, Endpoint
from console.launch import ControlPlane
from console.text import literal, pad, wrap
from control_plane.contracts.errors import InferDeckError
from control_plane.contracts.fleet import Snapshot, WorkerView
from control_plane.contracts.worker_spec import start_ticks

ROOM = 96
"""Columns of the tour's text."""

_LABEL = 12


class StepFailed(InferDeckError):
    """A step did not do what it says."""


def check(fact: bool, otherwise: str) -> None:
    if not fact:
        raise StepFailed(otherwise)


@dataclass
class Stage:
    home: Home
    say: Callable[[str], None]
    own: ControlPlane | None = None
    processes: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Everything that must be gone in the end: pid and start ticks by name."""

    def line(self, text: str = "") -> None:
        self.say(f"   {literal(text)}".rstrip())

    def row(self, label: str, text: str) -> None:
        first, *more = wrap(literal(text), ROOM - 3 - _LABEL)
        self.say(f"   {pad(label, _LABEL)}{first}")
        for part in more:
            self.say(f"   {' ' * _LABEL}{part}")

    def note_process(self, name: str, pid: int) -> None:
        if pid:
            self.processes[name] = (pid, start_ticks(pid))

    @property
    def state(self) -> State:
        state = self.home.running()
        check(state is not None, "the control plane is gone")
        assert state is not None
        return state

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint.parse(base_url(self.state.gateway_urls[0]), trust_of(self.home))

    @property
    def key(self) -> str:
        return read_key(Path(self.state.api_key_path))

    @asynccontextmanager
    async def client(self) -> AsyncIterator[OperatorClient]:
        async with OperatorClient(self.home.target()) as client:
            yield client

    async def snapshot(self) -> Snapshot:
        async with self.client() as client:
            return await client.get_snapshot(finished_requests=True)

    async def until(self, fact: Callable[[Snapshot], bool], otherwise: str, within_s: float = 120.0) -> Snapshot:
        """The first snapshot of which it is true. Raises StepFailed when none comes."""
        try:
            async with (
                asyncio.timeout(within_s),
                self.client() as client,
                aclosing(client.watch(0.1, finished_requests=True)) as snapshots,
            ):
                async for snapshot in snapshots:
                    if fact(snapshot):
                        return snapshot
        except TimeoutError:
            pass
        raise StepFailed(f"{otherwise} (waited {within_s:.0f} s)")

    async def ask(self, body: dict[str, Any], on_text: Callable[[str, float], None]) -> Answer:
        """One streamed chat call of the first model, over the gateway."""
        model = (await self.snapshot()).models[0].name
        connections = Connections(self.endpoint)
        answer = Answer(on_text)
        try:
            whole = {"model": model, "stream": True, "stream_options": {"include_usage": True}, **body}
            await answer.run(connections, "/chat/completions", self.key, whole)
        finally:
            connections.close()
        return answer


def idle(snapshot: Snapshot) -> bool:
    """Whether every counter is at zero: no request anywhere, no KV block in use."""
    return not any(request.phase.active for request in snapshot.requests) and all(
        worker.in_flight == 0
        and worker.load is not None
        and worker.load.running == worker.load.waiting == worker.load.used_blocks == 0
        for worker in snapshot.workers
    )


def used_blocks(snapshot: Snapshot) -> int:
    return sum(worker.load.used_blocks for worker in snapshot.workers if worker.load is not None)


def worker_of(snapshot: Snapshot, worker_id: str) -> WorkerView:
    found = [worker for worker in snapshot.workers if worker.id == worker_id]
    check(bool(found), f"there is no worker {worker_id}")
    return found[0]
