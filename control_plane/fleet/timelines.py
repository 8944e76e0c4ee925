"""Timelines of requests: what was reported of them, and what their workers' engines keep."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from control_plane.contracts.errors import InferDeckError, NotFound
from control_plane.contracts.fleet import RequestView
from control_plane.contracts.step import EngineStep
from control_plane.contracts.timeline import ClockSkew, Timeline
from control_plane.fleet.clocks import Exchange, skew
from control_plane.fleet.controller import Controller
from control_plane.fleet.requests import Requests
from control_plane.fleet.timeline import join
from control_plane.fleet.worker_client import WorkerClient

_EXCHANGES: Final = 4
_CLOCK_FOR_S: Final = 30.0
"""A clock drifts by less than a millisecond in this time."""


class Timelines:
    def __init__(self, requests: Requests, controller: Controller) -> None:
        self._requests = requests
        self._controller = controller
        self._clocks: dict[str, tuple[float, ClockSkew]] = {}

    async def of(self, request_id: str) -> Timeline:
        """Raises NotFound. What a worker that is gone would have known is missing, and counted."""
        request = self._requests.find(request_id)
        if request is None:
            raise NotFound(
                f"no request {request_id!r} runs or has ended lately",
                param="request_id",
                hint="inferdeck get requests --all",
            )
        return await self.made(request)

    async def made(self, request: RequestView, *, steps: bool = True) -> Timeline:
        """``steps``: with what its engine keeps of it, which costs its worker something."""
        if not steps:
            return join(request, ())
        engine_steps, clock = await self._engine(request)
        return join(request, engine_steps, clock)

    async def _engine(self, request: RequestView) -> tuple[tuple[EngineStep, ...], ClockSkew | None]:
        worker = self._controller.workers.get(request.worker_id)
        client = worker.client if worker is not None else None
        if worker is None or client is None:
            return (), None
        try:
            steps, clock = await asyncio.gather(
                client.steps_of(request.id), self._clock(worker.id, worker.instance_id, client)
            )
        except InferDeckError:
            return (), None
        return steps, clock

    async def _clock(self, worker_id: str, instance_id: str, client: WorkerClient) -> ClockSkew:
        now = time.monotonic()
        measured, clock = self._clocks.get(instance_id, (0.0, None))
        if clock is None or now - measured > _CLOCK_FOR_S:
            exchanges = []
            for _ in range(_EXCHANGES):
                asked = time.time()
                theirs = await client.read_clock()
                exchanges.append(Exchange(asked, theirs, time.time()))
            clock = skew(f"worker/{worker_id}", exchanges)
            self._clocks = {key: value for key, value in self._clocks.items() if now - value[0] <= _CLOCK_FOR_S}
            self._clocks[instance_id] = (now, clock)
        return clock
