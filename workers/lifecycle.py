"""A worker's life: announce, load the engine, prove it, serve, and end in a way that nobody has to guess."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import errno
import gc
import logging
import math
import os
import signal
import time
import uuid
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, Final

import uvloop

from control_plane import telemetry
from control_plane.contracts.errors import DropReason, InferDeckError, SettingsError
from control_plane.contracts.worker import CallError, Delta, Generate, ModelInfo, Sampling, WorkerInfo, WorkerState
from control_plane.contracts.worker_spec import Announcement, WorkerSpec, start_ticks
from workers.calls import CallTable
from workers.engine.base import Engine, EngineDead, Publishes, ReportsProgress
from workers.engines import make_engine
from workers.kv_watch import KvWatch
from workers.server import WorkerServer
from workers.status import WorkerStatus
from workers.step_watch import StepWatch
from workers.tokenizer_bundle import tokenizer_hash

_log = logging.getLogger(__name__)

EXIT_OK = 0
EXIT_NOT_STARTED = 1
EXIT_ENGINE_DEAD = 70

SIGTERM_GRACE_S = 5.0
PROOF_TIMEOUT_S = 120.0
LAST_WORDS_S = 1.0

SELF_TEST: Final = "self-test"
"""The worker's own call at its start, as its engine's steps name it."""


def run(spec: WorkerSpec) -> int:
    """Run a worker to its end and return its exit code: 0 stopped, 1 never got ready, 70 its engine died.

    Threads of an engine whose start was broken off may be left over: end the process with ``os._exit``.
    """
    telemetry.setup_logging("worker", worker_id=spec.worker_id, pid=os.getpid())
    loop = uvloop.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        code: int = loop.run_until_complete(Worker(spec).live())
        return code
    finally:
        asyncio.set_event_loop(None)
        loop.close()


class Worker:
    """One worker process; ``live`` is its whole life. Made and used inside a running loop."""

    def __init__(self, spec: WorkerSpec) -> None:
        self.spec = spec
        self._started_unix = time.time()
        self._started_mono = time.monotonic()
        self._announcement = Announcement(
            worker_id=spec.worker_id,
            instance_id=uuid.uuid4().hex,
            pid=os.getpid(),
            start_ticks=start_ticks(os.getpid()),
            phase="loading",
            detail=f"starting the {spec.engine} engine",
        )
        self._status = WorkerStatus()
        self._stop = asyncio.Event()
        self._deadline = math.inf
        self._deadline_moved = asyncio.Event()

    async def live(self) -> int:
        try:
            self._announce()
        except OSError as error:
            return self._not_started(error)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)
        try:
            engine = make_engine(self.spec)
        except Exception as error:
            return self._not_started(error)
        try:
            code = await self._run(engine)
        finally:
            await engine.stop()
        _log.info("ended", extra={"exit_code": code, "reason": self._status.reason})
        return code

    def request_stop(self, grace_s: float) -> None:
        """End after the running calls, or after ``grace_s`` seconds. Asked again, the earlier deadline counts."""
        self._deadline = min(self._deadline, time.monotonic() + max(grace_s, 0.0))
        self._deadline_moved.set()
        self._stop.set()

    def _on_signal(self) -> None:
        self.request_stop(0.0 if self._stop.is_set() else SIGTERM_GRACE_S)

    async def _run(self, engine: Engine) -> int:
        if isinstance(engine, ReportsProgress):
            engine.on_progress = self._on_progress
        steps, kv = StepWatch(engine), KvWatch(engine, self._announcement.instance_id)
        try:
            model = await self._unless_stopped(self._load(engine))
            if model is None:
                return self._stopped()
            steps.describe(model.total_blocks, model.block_size)
            server, address = await self._serve(engine, model, steps, kv)
        except Exception as error:
            return self._not_started(error)
        self._announce(phase="serving", address=address, detail="", progress=1.0, engine_pids=list(engine.pids()))
        _log.info("serving", extra={"address": address, "load_s": round(time.monotonic() - self._started_mono, 3)})
        return await self._until_the_end(engine, server)

    async def _load(self, engine: Engine) -> ModelInfo:
        model = await engine.start()
        await prove(engine)
        return dataclasses.replace(model, tokenizer_hash=tokenizer_hash(engine.tokenizer_files()))

    async def _unless_stopped(self, work: Coroutine[Any, Any, ModelInfo]) -> ModelInfo | None:
        """What the work returns, or None if the worker was asked to stop before it was done."""
        task = asyncio.create_task(work)
        stop = asyncio.create_task(self._stop.wait())
        await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if task.done():
            return task.result()
        task.cancel()
        await asyncio.wait({task})
        return None

    async def _serve(self, engine: Engine, model: ModelInfo, steps: StepWatch, kv: KvWatch) -> tuple[WorkerServer, str]:
        spec = self.spec
        info = WorkerInfo(
            worker_id=spec.worker_id,
            instance_id=self._announcement.instance_id,
            pid=os.getpid(),
            started_unix=self._started_unix,
            engine=engine.name,
            engine_version=engine.version,
            model=model,
            device=engine.device,
            load_s=time.monotonic() - self._started_mono,
        )
        extra = engine.published if isinstance(engine, Publishes) else None
        server = WorkerServer(engine, info, self._status, self.request_stop, extra, steps, kv)
        address = await server.start(spec.host, spec.port, spec.credentials)
        # What lives now lives to the end: the collector need not look at it again.
        gc.collect()
        gc.freeze()
        self._status.move(WorkerState.READY)
        return server, address

    async def _until_the_end(self, engine: Engine, server: WorkerServer) -> int:
        dead = asyncio.create_task(engine.dead())
        stop = asyncio.create_task(self._stop.wait())
        await asyncio.wait({dead, stop}, return_when=asyncio.FIRST_COMPLETED)
        if not dead.done():
            self._status.move(WorkerState.STOPPING, "asked to stop")
            _log.info("stopping", extra={"in_flight": len(server.calls)})
            await self._finish_calls(server.calls, dead)
        stop.cancel()
        if dead.done():
            return await self._engine_died(server, dead.result())
        dead.cancel()
        server.calls.fail_all(CallError(DropReason.WORKER_LOST, "the worker was stopped"))
        await server.end(LAST_WORDS_S)
        return self._stopped()

    async def _finish_calls(self, calls: CallTable, dead: asyncio.Task[str]) -> None:
        """Wait until nothing runs, the engine is dead or the deadline, which may move, has come."""
        idle = asyncio.create_task(calls.idle())
        moved = asyncio.create_task(self._deadline_moved.wait())
        while not idle.done() and not dead.done() and (left := self._deadline - time.monotonic()) > 0:
            await asyncio.wait({idle, dead, moved}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if moved.done():
                self._deadline_moved.clear()
                moved = asyncio.create_task(self._deadline_moved.wait())
        idle.cancel()
        moved.cancel()

    async def _engine_died(self, server: WorkerServer, cause: str) -> int:
        _log.error("the engine died", extra={"cause": cause, "in_flight": len(server.calls)})
        self._status.move(WorkerState.FAILED, cause)
        server.calls.fail_all(CallError(DropReason.ENGINE_DEAD, f"the engine died: {cause}"))
        self._announce(phase="failed", detail=cause, engine_pids=[])
        await server.end(LAST_WORDS_S)
        return EXIT_ENGINE_DEAD

    def _not_started(self, error: Exception) -> int:
        detail = str(error) or type(error).__name__
        if isinstance(error, SettingsError) and (place := self.spec.place_of(error.param)):
            detail = f"{place}: {detail}"
        if isinstance(error, InferDeckError) and error.hint:
            detail = f"{detail} (hint: {error.hint})"
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            detail = f"the disk is full: no room for {error.filename or self.spec.announce_path}"
            _log.error("the worker could not start", extra={"cause": detail})
        elif isinstance(error, InferDeckError | EngineDead):
            _log.error("the worker could not start", extra={"cause": detail})
        else:
            _log.error("the worker could not start", exc_info=error)
        with contextlib.suppress(OSError):
            self._announce(phase="failed", detail=detail, refuses_settings=isinstance(error, SettingsError))
        return EXIT_NOT_STARTED

    def _stopped(self) -> int:
        with contextlib.suppress(OSError):
            Path(self.spec.announce_path).unlink()
        return EXIT_OK

    def _on_progress(self, detail: str, progress: float) -> None:
        self._announce(detail=detail, progress=progress)

    def _announce(self, **changes: Any) -> None:
        self._announcement = dataclasses.replace(self._announcement, **changes)
        self._announcement.save(Path(self.spec.announce_path))


async def prove(engine: Engine) -> None:
    """Let the engine generate one token by the way that every call takes. Raises EngineDead if none comes."""
    done: asyncio.Future[Delta] = asyncio.get_running_loop().create_future()

    def sink(deltas: Sequence[Delta]) -> None:
        for delta in deltas:
            if (delta.done is not None or delta.error is not None) and not done.done():
                done.set_result(delta)

    sampling = Sampling(max_tokens=1, temperature=0.0, ignore_eos=True)
    engine.submit(Generate(0, SELF_TEST, [1], sampling, arrival_unix=time.time()), sink)
    try:
        async with asyncio.timeout(PROOF_TIMEOUT_S):
            last = await done
    except TimeoutError as error:
        raise EngineDead(f"the engine generated nothing within {PROOF_TIMEOUT_S:g} s") from error
    if last.error is not None or last.done is None or last.done.output_tokens < 1:
        raise EngineDead(f"the engine generated no token: {last.error.message if last.error else 'it ended empty'}")
