"""A worker with the scripted engine, for tests of everything that talks to workers.

``scripted_worker()`` starts a real worker process (``python -m workers``); ``scripted_server()`` serves the same from
the test's own loop, which is quicker to start and cannot be killed. Both take the arguments of the scripted engine
(``workers/engine/scripted/settings.py``) and yield what a control plane would know of the worker. What a request gets
is written in its prompt: see ``workers/engine/modelless/script.py``.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from control_plane.contracts.worker import ModelInfo, WorkerInfo, WorkerState
from control_plane.contracts.worker_spec import Announcement, WorkerSpec
from workers.engine.scripted import ScriptedEngine
from workers.server import WorkerServer
from workers.status import WorkerStatus
from workers.tokenizer_bundle import tokenizer_hash

ROOT = Path(__file__).resolve().parent.parent
START_TIMEOUT_S = 60.0


def scripted_spec(directory: Path, *, worker_id: str = "scripted-1", **fields: Any) -> WorkerSpec:
    """A spec with its files in ``directory``; fields of WorkerSpec by name, all others are engine arguments."""
    names = {field.name for field in dataclasses.fields(WorkerSpec)}
    own = {name: value for name, value in fields.items() if name in names}
    values = {
        "pool": "scripted",
        "engine": "scripted",
        "model": "scripted-model",
        "source": "",
        "announce_path": str(directory / f"{worker_id}.json"),
        "log_path": str(directory / f"{worker_id}.log"),
        "cache_dir": str(directory),
        "engine_args": {name: value for name, value in fields.items() if name not in names},
    }
    return WorkerSpec(worker_id=worker_id, **(values | own))


@dataclass(slots=True)
class ScriptedWorker:
    """A worker process. ``announcement`` is what it wrote when it began to serve."""

    spec: WorkerSpec
    process: asyncio.subprocess.Process
    announcement: Announcement

    @property
    def address(self) -> str:
        return self.announcement.address

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def log(self) -> str:
        return read_log(self.spec)

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    async def wait(self, timeout_s: float = 30.0) -> int:
        """The exit code; negative is the signal that ended it."""
        async with asyncio.timeout(timeout_s):
            return await self.process.wait()


@asynccontextmanager
async def scripted_worker(directory: Path | None = None, **fields: Any) -> AsyncIterator[ScriptedWorker]:
    """A worker process that serves; killed at the end if it still lives."""
    with tempfile.TemporaryDirectory(prefix="inferdeck-test-") as temporary:
        spec = scripted_spec(directory or Path(temporary), **fields)
        process = await start_worker_process(spec)
        try:
            yield ScriptedWorker(spec, process, await announced(spec, process))
        finally:
            await end_process(process)


async def start_worker_process(spec: WorkerSpec) -> asyncio.subprocess.Process:
    """``python -m workers`` in a session of its own, its output in the spec's log file. Does not wait for it."""
    path = Path(spec.announce_path).with_suffix(".spec.json")
    spec.save(path)
    with _open_log(spec) as log:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "workers",
            "--spec",
            str(path),
            stdout=log,
            stderr=log,
            cwd=ROOT,
            start_new_session=True,
        )


def read_log(spec: WorkerSpec) -> str:
    return Path(spec.log_path).read_text()


def _open_log(spec: WorkerSpec) -> BinaryIO:
    return open(spec.log_path, "ab")


def read_announcement(spec: WorkerSpec) -> Announcement | None:
    try:
        return Announcement.load(Path(spec.announce_path))
    except FileNotFoundError:
        return None


async def announced(
    spec: WorkerSpec, process: asyncio.subprocess.Process, phase: str = "serving", timeout_s: float = START_TIMEOUT_S
) -> Announcement:
    """What the worker announced when it reached ``phase``. Raises RuntimeError with its log if it ends before."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        announcement = read_announcement(spec)
        if announcement is not None and announcement.phase == phase and announcement.pid == process.pid:
            return announcement
        if process.returncode is not None:
            break
        await asyncio.sleep(0.01)
    raise RuntimeError(f"the worker did not become {phase}: {read_log(spec)[-4000:]}")


async def end_process(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()


@dataclass(slots=True)
class ScriptedServer:
    """A worker's server in this process, with its engine and status at hand."""

    spec: WorkerSpec
    address: str
    info: WorkerInfo
    engine: ScriptedEngine
    server: WorkerServer
    status: WorkerStatus
    stops: list[float]

    @property
    def model(self) -> ModelInfo:
        assert self.info.model is not None
        return self.info.model


@asynccontextmanager
async def scripted_server(**fields: Any) -> AsyncIterator[ScriptedServer]:
    """A worker's server in this loop, ready. ``stops`` collects the grace of every Stop; a Stop does nothing else."""
    with tempfile.TemporaryDirectory(prefix="inferdeck-test-") as temporary:
        spec = scripted_spec(Path(temporary), **{"exit_process": False, **fields})
        engine, status, stops = ScriptedEngine(spec), WorkerStatus(), list[float]()
        model = await engine.start()
        model = dataclasses.replace(model, tokenizer_hash=tokenizer_hash(engine.tokenizer_files()))
        info = WorkerInfo(
            worker_id=spec.worker_id,
            instance_id=uuid.uuid4().hex,
            pid=os.getpid(),
            started_unix=time.time(),
            engine=engine.name,
            engine_version=engine.version,
            model=model,
            device=engine.device,
        )
        server = WorkerServer(engine, info, status, stops.append)
        address = await server.start(spec.host, spec.port)
        status.move(WorkerState.READY)
        try:
            yield ScriptedServer(spec, address, info, engine, server, status, stops)
        finally:
            await server.end(0.2)
            await engine.stop()
