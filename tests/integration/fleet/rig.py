"""A whole platform in a temporary home: real processes, scripted engines, free ports."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx

from console.client import OperatorClient
from control_plane.contracts.fleet import Snapshot, WorkerPhase, WorkerView
from control_plane.contracts.worker_spec import start_ticks

PATIENCE_S = 60.0

CONFIG = """
[gateway]
port = 0
[api]
port = 0
[[pool]]
name = "tiny"
model = "tiny"
engine = "scripted"
replicas = {replicas}
[pool.engine_args]
tokens = 16
delay_s = 0.005
"""


def alive(pid: int) -> bool:
    return start_ticks(pid) != 0


class Deck:
    """One home and, between ``start`` and ``stop``, its control plane."""

    def __init__(self, folder: Path, replicas: int = 1, config: str = CONFIG) -> None:
        self.home = folder / "home"
        self.config = folder / "deck.toml"
        self.config.write_text(config.format(replicas=replicas))
        self.process: subprocess.Popen[bytes] | None = None
        self.seen_pids: set[int] = set()
        self._output = folder / "serve.out"

    # --- processes

    def command(self, *more: str) -> list[str]:
        serve = ["serve", "--home", str(self.home), "--config", str(self.config), *more]
        return [sys.executable, "-m", "control_plane", *serve]

    def spawn(self, *more: str, pass_fds: tuple[int, ...] = ()) -> subprocess.Popen[bytes]:
        with self._output.open("ab") as output:
            self.process = subprocess.Popen(
                self.command(*more), stdin=subprocess.DEVNULL, stdout=output, stderr=output, pass_fds=pass_fds
            )
        self.seen_pids.add(self.process.pid)
        return self.process

    def refused(self) -> subprocess.CompletedProcess[str]:
        """One more control plane, run to its end."""
        return subprocess.run(self.command(), capture_output=True, text=True, check=False, timeout=PATIENCE_S)

    async def start(self, *more: str, ready: bool = True) -> Snapshot:
        self.spawn(*more)
        if ready:
            return await self.until(everything_ready)
        return await self.until(lambda snapshot: True)

    async def ended(self) -> int:
        """The control plane's exit code."""
        assert self.process is not None
        return await asyncio.to_thread(self.process.wait, PATIENCE_S)

    async def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return await self.ended()

    async def kill(self) -> None:
        """kill -9 the control plane alone."""
        assert self.process is not None
        self.process.kill()
        await self.ended()

    def clean_up(self) -> None:
        """Whatever a failed test left."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for path in (self.home / "run").glob("*/*.json"):
            with contextlib.suppress(OSError, ValueError, KeyError):
                self.seen_pids.add(json.loads(path.read_text())["pid"])
        for pid in self.seen_pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    # --- what it says

    def state(self) -> dict[str, Any]:
        try:
            values: dict[str, Any] = json.loads((self.home / "state.json").read_text())
        except (OSError, ValueError):
            return {}
        return values

    @property
    def said(self) -> str:
        """What it wrote to stdout and stderr."""
        return self._output.read_text()

    def log(self, name: str) -> str:
        return (self.home / "logs" / f"{name}.log").read_text()

    @property
    def url(self) -> str:
        return str(self.state()["gateway_urls"][0])

    def client(self) -> OperatorClient:
        return OperatorClient.open(self.home)

    @contextlib.asynccontextmanager
    async def operator(self) -> AsyncIterator[OperatorClient]:
        async with self.client() as client:
            yield client

    async def until(self, condition: Callable[[Snapshot], bool]) -> Snapshot:
        """The first snapshot for which the condition holds."""
        snapshot: Snapshot | None = None
        try:
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    assert self.process is None or self.process.poll() is None, self.said
                    if not self.state():
                        await asyncio.sleep(0.02)
                        continue
                    with contextlib.suppress(Exception):
                        async with self.client() as client:
                            async for snapshot in client.watch(0.05, finished_requests=True):
                                self._note(snapshot)
                                if condition(snapshot):
                                    return snapshot
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"it never came; last seen: {snapshot}") from None

    def _note(self, snapshot: Snapshot) -> None:
        for worker in snapshot.workers:
            self.seen_pids |= {pid for pid in (worker.pid, worker.engine_pid) if pid}
        self.seen_pids |= {each.pid for each in (*snapshot.gateways, *snapshot.routers) if each.pid}

    # --- callers

    def headers(self) -> dict[str, str]:
        key = (self.home / "api.key").read_text().strip()
        return {"authorization": f"Bearer {key}"}

    @contextlib.asynccontextmanager
    async def caller(self) -> AsyncIterator[httpx.AsyncClient]:
        ca = self.state().get("gateway_ca")
        verify = ssl.create_default_context(cafile=ca) if ca else True
        async with httpx.AsyncClient(
            base_url=self.url, headers=self.headers(), timeout=PATIENCE_S, verify=verify
        ) as client:
            yield client

    async def stream(self, tokens: int, delay_s: float = 0.0) -> list[dict[str, Any]]:
        """One streamed chat of so many tokens; every event, the end included."""
        script = json.dumps({"script": {"tokens": tokens, "delay_s": delay_s}})
        body = {
            "model": "tiny",
            "messages": [{"role": "user", "content": script}],
            "stream": True,
            "max_tokens": tokens,
        }
        events: list[dict[str, Any]] = []
        async with self.caller() as client, client.stream("POST", "/v1/chat/completions", json=body) as response:
            assert response.status_code == 200, await response.aread()
            async for line in response.aiter_lines():
                if line.startswith("data: "):
                    data = line.removeprefix("data: ")
                    events.append({"end": True} if data == "[DONE]" else json.loads(data))
        return events


def everything_ready(snapshot: Snapshot) -> bool:
    pools = snapshot.pools
    return all(pool.ready == pool.desired for pool in pools) and all(gateway.ready for gateway in snapshot.gateways)


def worker(snapshot: Snapshot, worker_id: str) -> WorkerView:
    return next(view for view in snapshot.workers if view.id == worker_id)


def ids(snapshot: Snapshot) -> list[str]:
    return [view.id for view in snapshot.workers]


def ready_ids(snapshot: Snapshot) -> list[str]:
    return [view.id for view in snapshot.workers if view.phase is WorkerPhase.READY]


def kinds(snapshot: Snapshot, subject: str) -> list[str]:
    return [event.kind for event in snapshot.events if event.subject == subject]


def contents(events: list[dict[str, Any]]) -> int:
    """How many content deltas a stream had."""
    deltas = (choice["delta"] for event in events for choice in event.get("choices", ()))
    return sum(1 for delta in deltas if delta.get("content"))


async def gone(pid: int) -> None:
    until = time.monotonic() + PATIENCE_S
    while alive(pid):
        assert time.monotonic() < until, f"process {pid} is still there"
        await asyncio.sleep(0.02)
