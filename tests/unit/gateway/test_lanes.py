from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from control_plane.contracts.errors import InvalidRequest, Unavailable
from control_plane.gateway.prompt import lanes as lanes_module
from control_plane.gateway.prompt.lanes import LONG_CHARACTERS, SMALL_CHARACTERS, Job, Lanes

SHORT = SMALL_CHARACTERS + 1


@pytest.fixture
async def lanes() -> AsyncIterator[Lanes]:
    lanes = Lanes()
    lanes.start()
    yield lanes
    lanes.stop()


class Outcomes:
    def __init__(self) -> None:
        self.jobs: list[Job[object]] = []
        self._changed = asyncio.Event()

    def then(self, job: Job[object]) -> None:
        assert threading.current_thread() is threading.main_thread()
        self.jobs.append(job)
        self._changed.set()

    async def wait(self, count: int) -> None:
        async with asyncio.timeout(10):
            while len(self.jobs) < count:
                self._changed.clear()
                await self._changed.wait()


async def test_work_is_done_in_a_thread_and_its_result_comes_back_to_the_loop(lanes: Lanes) -> None:
    outcomes = Outcomes()
    lanes.submit(Job(lambda: threading.current_thread().name, outcomes.then), SHORT)
    lanes.submit(Job(lambda: threading.current_thread().name, outcomes.then), LONG_CHARACTERS + 1)
    await outcomes.wait(2)
    assert {job.result for job in outcomes.jobs} == {"prompt-short", "prompt-long"}


async def test_an_error_comes_back_as_one_and_the_lane_lives_on(lanes: Lanes) -> None:
    outcomes = Outcomes()

    def fail() -> None:
        raise InvalidRequest("no")

    lanes.submit(Job(fail, outcomes.then), SHORT)
    lanes.submit(Job(lambda: 7, outcomes.then), SHORT)
    await outcomes.wait(2)
    assert isinstance(outcomes.jobs[0].error, InvalidRequest)
    assert outcomes.jobs[1].result == 7


async def test_short_work_does_not_wait_for_long_work(lanes: Lanes) -> None:
    outcomes, release = Outcomes(), threading.Event()
    lanes.submit(Job(lambda: release.wait(10), outcomes.then), LONG_CHARACTERS + 1)
    lanes.submit(Job(lambda: "short", outcomes.then), SHORT)
    await outcomes.wait(1)
    assert outcomes.jobs[0].result == "short"
    release.set()
    await outcomes.wait(2)


async def test_cancelled_work_is_not_begun_and_its_result_not_told(lanes: Lanes) -> None:
    outcomes, release, begun = Outcomes(), threading.Event(), []
    running: Job[object] = Job(lambda: release.wait(10), outcomes.then)
    waiting: Job[object] = Job(lambda: begun.append(1), outcomes.then)
    lanes.submit(running, SHORT)
    lanes.submit(waiting, SHORT)
    lanes.submit(Job(lambda: "last", outcomes.then), SHORT)
    running.cancelled = waiting.cancelled = True
    release.set()
    await outcomes.wait(1)
    assert [job.result for job in outcomes.jobs] == ["last"]
    assert begun == []


async def test_what_may_wait_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes_module, "_LONG_WAITING", 2)
    lanes, release, begun = Lanes(), threading.Event(), asyncio.Event()
    lanes.start()
    loop = asyncio.get_running_loop()

    def hold() -> None:
        loop.call_soon_threadsafe(begun.set)
        release.wait(10)

    def ignore(job: Job[None]) -> None:
        pass

    lanes.submit(Job(hold, ignore), LONG_CHARACTERS + 1)
    async with asyncio.timeout(10):
        await begun.wait()
    lanes.submit(Job(lambda: None, ignore), LONG_CHARACTERS + 1)
    with pytest.raises(Unavailable):
        lanes.submit(Job(lambda: None, ignore), LONG_CHARACTERS + 1)
    release.set()
    lanes.stop()


async def test_a_thousand_jobs_all_come_back_in_order(lanes: Lanes) -> None:
    outcomes = Outcomes()
    for index in range(1000):
        lanes.submit(Job(lambda index=index: index, outcomes.then), SHORT)
    await outcomes.wait(1000)
    assert [job.result for job in outcomes.jobs] == list(range(1000))


async def test_a_small_job_is_done_at_once(lanes: Lanes) -> None:
    outcomes = Outcomes()
    lanes.submit(Job(lambda: threading.current_thread().name, outcomes.then), SMALL_CHARACTERS)
    assert [job.result for job in outcomes.jobs] == [threading.main_thread().name]


async def test_an_error_of_a_small_job_comes_back_as_one(lanes: Lanes) -> None:
    outcomes = Outcomes()

    def fail() -> None:
        raise InvalidRequest("no")

    lanes.submit(Job(fail, outcomes.then), 1)
    assert isinstance(outcomes.jobs[0].error, InvalidRequest)


async def test_small_jobs_that_take_long_after_all_keep_the_next_ones_off_the_loop(
    lanes: Lanes, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes, names = Outcomes(), []
    monkeypatch.setattr(lanes_module, "_SLOW_S", 0.0)
    for _ in range(2):
        lanes.submit(Job(lambda: names.append(threading.current_thread().name), outcomes.then), 1)
        monkeypatch.setattr(lanes_module, "_LOOPS_SHARE", 1e-9)
    lanes.submit(Job(lambda: names.append(threading.current_thread().name), outcomes.then), 1)
    await outcomes.wait(3)
    assert names[0] == threading.main_thread().name
    assert names[-1] == "prompt-short"
