"""R03 and F7: many calls of every tier over real gRPC, a third of them cancelled wherever they are, while workers die.

More of them: ``python -m tests.fuzz -k storm --examples 10000``.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest

from control_plane.contracts.admission import AdmissionRules
from control_plane.contracts.errors import DropReason, InferDeckError
from control_plane.contracts.fleet import RequestPhase
from control_plane.contracts.routing import Routing
from tests.fuzz.bounds import VARIABLE
from tests.integration.router.rig import Rig, WaitingSink, rig, until, worker_load, worker_requests
from tests.scripted_worker import ScriptedWorker, scripted_worker
from tests.unit.router.tiers import ENTERPRISE, FREE, PAID

REQUESTS = int(os.environ.get(VARIABLE, "2000"))
AT_ONCE = 120
TIERS = (ENTERPRISE, PAID, FREE)


class Storm:
    def __init__(self, made: Rig, seed: int) -> None:
        self.made = made
        self.rng = Random(seed)
        self.left: set[str] = set()
        self.sinks: dict[str, WaitingSink] = {}
        self.refused: Counter[str] = Counter()
        self.waited = 0

    async def call(self) -> None:
        """One call, to its end or to where its caller leaves."""
        rng, made = self.rng, self.made
        script = {"tokens": rng.randint(1, 12)}
        tier = rng.choice(TIERS)
        try:
            handle, sink = made.submit(script, stream=rng.random() < 0.7, flow=rng.choice("abc"), **tier)
        except InferDeckError as error:
            self.refused[error.reason] += 1
            return
        name = handle.call.request_id
        self.sinks[name] = sink
        self.waited += not handle.worker_id
        if rng.random() < 0.3:
            await self._leave(handle, sink, name)
        else:
            await sink.end()

    async def _leave(self, handle: Any, sink: WaitingSink, name: str) -> None:
        """At once, a little later, or after its first token; by itself or by an operator."""
        stage = self.rng.randrange(3)
        if stage == 1:
            await asyncio.sleep(self.rng.random() * 0.02)
        elif stage == 2:
            waits = {asyncio.ensure_future(sink.first.wait()), asyncio.ensure_future(sink.ended.wait())}
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
        if self.rng.random() < 0.2:
            self.made.router.cancel(name)
            await sink.end()
            return
        if not sink.ended.is_set():
            self.left.add(name)
        handle.cancel("client_left")


@pytest.mark.timeout(0 if REQUESTS > 2000 else 120)
async def test_every_counter_is_back_at_zero_after_a_storm(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        numbers = itertools.count(1)

        async def worker(name: str) -> ScriptedWorker:
            folder = tmp_path / f"{name}-{next(numbers)}"
            folder.mkdir()
            return await stack.enter_async_context(
                scripted_worker(folder, worker_id=name, delay_s=0.002, max_num_seqs=8, total_blocks=512)
            )

        alive = dict(zip("abc", await asyncio.gather(*(worker(name) for name in "abc")), strict=True))
        made = await stack.enter_async_context(rig(list(alive.values())))
        made.router.route(Routing(admission=AdmissionRules(queue_limit=60)))
        storm = Storm(made, seed=7)
        todo = itertools.count()
        deaths = {REQUESTS // 3: "a", 2 * REQUESTS // 3: "b"}
        reborn: list[asyncio.Task[None]] = []

        async def replace(name: str) -> None:
            alive[name].signal(signal.SIGKILL)
            await alive[name].wait()
            alive[name] = await worker(name)
            await made.fleet.add(alive[name])

        async def caller() -> None:
            while (number := next(todo)) < REQUESTS:
                if number in deaths:
                    reborn.append(asyncio.create_task(replace(deaths[number])))
                await storm.call()
                await asyncio.sleep(0)

        await asyncio.gather(*(caller() for _ in range(AT_ONCE)))
        await asyncio.gather(*reborn)
        await made.ready(3)

        await until(lambda: len(made.fleet.ended) == REQUESTS, "the report of every end")
        made.check_idle()
        assert len(storm.sinks) + storm.refused.total() == REQUESTS
        assert {name for name, sink in storm.sinks.items() if not sink.ended.is_set()} == storm.left
        ended = Counter(view.id for report in made.fleet.reports for view in report.ended)
        assert set(ended.values()) == {1}
        phases = Counter(view.phase for view in made.fleet.ended.values())
        assert all(phases[phase] for phase in (RequestPhase.FINISHED, RequestPhase.CANCELLED, RequestPhase.FAILED))
        assert storm.waited, "the queue was used"
        assert set(storm.refused) <= {DropReason.OVERLOADED, DropReason.TIER_THROTTLED}
        assert any(view.retries for view in made.fleet.ended.values()), "a death was felt"
        for live in alive.values():
            await until_idle(live.address)
        _, after = made.submit({"tokens": 2})
        await after.end()
        assert after.error is None


async def until_idle(address: str) -> None:
    async with asyncio.timeout(30):
        while await worker_requests(address) or (await worker_load(address)).used_blocks:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
