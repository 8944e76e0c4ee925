"""The line to one worker, from its first announcement to its end: who it is, how it is, and what it is told."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from control_plane.contracts.errors import InferDeckError
from control_plane.contracts.worker import Load, WorkerInfo, WorkerState
from control_plane.contracts.worker_spec import Announcement
from control_plane.fleet.launcher.base import Launcher
from control_plane.fleet.state import LOST_STOP_S, Stage
from control_plane.fleet.worker import Worker
from control_plane.fleet.worker_client import WorkerClient
from control_plane.tasks import Tasks

POLL_S: Final = 0.05
RETRY_S: Final = 0.25
_SERVES = (WorkerState.READY, WorkerState.DRAINING, WorkerState.ASLEEP, WorkerState.WAKING)

log = logging.getLogger(__name__)


class Refused(Exception):
    """The process at that address is not the worker that is wanted; the message says how it differs."""


class Link:
    """``changed(structural)`` is called after every change, ``refused(why)`` when the wrong worker answers."""

    def __init__(
        self,
        worker: Worker,
        launcher: Launcher,
        changed: Callable[[bool], None],
        refused: Callable[[str], None],
        credentials: str = "",
    ) -> None:
        self._worker = worker
        self._launcher = launcher
        self._changed = changed
        self._refused = refused
        self._credentials = credentials
        self._tasks = Tasks()

    async def run(self) -> None:
        """Until the worker's process has ended, or this is cancelled."""
        announcement = await self._announced()
        credentials = self._credentials if self._worker.spec.credentials else ""
        client = self._worker.client = WorkerClient(announcement.address, credentials)
        patience = time.monotonic() + LOST_STOP_S
        try:
            while True:
                try:
                    await self._talk(client, announcement)
                except Refused:
                    raise
                except InferDeckError:
                    pass
                except Exception:
                    log.exception("the line to a worker broke", extra={"worker": self._worker.id})
                if self._worker.load is None and time.monotonic() > patience:
                    raise Refused(f"it announced {announcement.address} and does not answer there")
                await asyncio.sleep(RETRY_S)
                await client.reconnect()
        except Refused as why:
            self._refused(str(why))
        finally:
            self._worker.client = None
            await client.close()

    async def _announced(self) -> Announcement:
        """What the worker announces once it serves; what it says on the way there is its reason."""
        worker = self._worker
        while True:
            said = self._launcher.announcement(worker.id)
            if said is not None and self._own(said):
                if said != worker.announcement:
                    worker.announcement = said
                    worker.moved_at = time.monotonic()
                    worker.instance_id = said.instance_id or worker.instance_id
                    if said.detail:
                        worker.reason = _progress(said)
                    self._changed(bool(said.instance_id))
                if said.phase == "serving" and said.address:
                    return said
            await asyncio.sleep(POLL_S)

    def _own(self, said: Announcement) -> bool:
        return self._worker.process is not None and said.pid == self._worker.process.pid

    async def _talk(self, client: WorkerClient, announcement: Announcement) -> None:
        info = await client.info()
        _verify(info, announcement, self._worker.model)
        self._worker.info = info
        obeying: asyncio.Task[None] | None = None
        try:
            async for load in client.loads():
                if load.instance_id != announcement.instance_id:
                    raise Refused(f"another instance answers at {client.address}")
                self._heard(load)
                # Beside the loads: a worker that is slow to drain gives signs of life meanwhile.
                if obeying is None or obeying.done():
                    obeying = self._tasks.spawn(self._obey(client, load.state), f"obey {self._worker.id}")
        finally:
            await self._tasks.cancel()

    def _heard(self, load: Load) -> None:
        worker, now = self._worker, time.monotonic()
        before = (worker.phase, worker.load.state if worker.load is not None else None)
        worked = worker.load is not None and load.steps > worker.load.steps
        worker.health = worker.health.sign(now, worked=worked, owing=bool(load.running or load.waiting))
        worker.load, worker.load_at, worker.heartbeat_unix = load, now, time.time()
        if worker.info is not None and worker.info.state is not load.state:
            worker.info = replace(worker.info, state=load.state)
        if load.state in _SERVES and (worker.stage is Stage.STARTING or before[1] is None):
            worker.enter(Stage.SERVING, worker.reason if worker.retiring else "")
        if load.state is WorkerState.FAILED and not worker.reason:
            worker.reason = "its engine died"
        self._changed((worker.phase, load.state) != before)

    async def _obey(self, client: WorkerClient, state: WorkerState) -> None:
        """Have the worker refuse or accept calls as decided; said again with every load until it is so."""
        worker = self._worker
        if worker.stage is not Stage.SERVING:
            return
        with contextlib.suppress(InferDeckError):
            if worker.told_to_drain and state is WorkerState.READY:
                await client.drain()
            elif not worker.told_to_drain and not worker.cordoned and state is WorkerState.DRAINING:
                await client.resume()


def _progress(said: Announcement) -> str:
    return f"{said.detail} ({said.progress:.0%})" if 0 < said.progress < 1 else said.detail


def _verify(info: WorkerInfo, announcement: Announcement, model: str) -> None:
    if info.worker_id != announcement.worker_id or info.instance_id != announcement.instance_id:
        raise Refused(f"{announcement.address} answers as {info.worker_id or 'nobody'}, another instance")
    served = info.model.name if info.model is not None else ""
    if served != model:
        raise Refused(f"it serves the model {served!r}, the pool wants {model!r}")
