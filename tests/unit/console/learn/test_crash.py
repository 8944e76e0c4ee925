"""Workers that die under one call, against a platform that is made of snapshots."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from console.learn import crash
from console.learn.calls import Made
from console.learn.crash import crash_under
from console.learn.waiting import NotDone
from console.learn.wire import WireAnswer
from control_plane.contracts.failure import Failure, FailureKind
from control_plane.contracts.fleet import RequestPhase, RequestView, Snapshot
from lessons.actions import Shape


class Platform:
    """One call. With ``goes_on`` it moves to the next worker when its own dies; else it is over then."""

    def __init__(self, *, goes_on: int, silent: bool = False) -> None:
        self.died: list[str] = []
        self.answer = WireAnswer()
        self.answer._times = [0.0]
        self.made = Made("r", Shape("x"), "", {}, self.answer)
        self._goes_on = goes_on
        self._silent = silent
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.made.task = self._ended  # type: ignore[assignment]  # one that never runs
        self._late = False

    async def inject(self, worker_id: str, failure: Failure) -> None:
        assert failure.kind is FailureKind.CRASH
        self.died.append(worker_id)
        self._late = True

    def end(self) -> None:
        self._ended.set_result(None)

    async def watch(self, interval_s: float, *, finished_requests: bool) -> AsyncGenerator[Snapshot, None]:
        """The first snapshot after a death does not tell of it yet, and has the last text of who died."""
        while True:
            moved = len(self.died) - self._late
            if moved > self._goes_on:
                self.end()
            view = RequestView("r", "g", "m", RequestPhase.DECODING, f"w-{moved + 1}", retries=moved)
            yield Snapshot(1, 1.0, "cp", "0", requests=(RequestView("q", "g", "m", RequestPhase.QUEUED), view))
            self._late = False
            if not self._silent or not self.died:
                self.answer._times.append(0.0)
            await asyncio.sleep(0)


async def crashed(platform: Platform, times: int) -> None:
    client: Any = platform
    await crash_under(client, platform.made, times)


async def test_the_worker_that_has_the_call_dies_and_then_the_next_one() -> None:
    platform = Platform(goes_on=9)
    await crashed(platform, 3)
    assert platform.died == ["w-1", "w-2", "w-3"]
    assert not platform.made.over


async def test_a_call_that_ends_with_its_last_worker_is_what_was_wanted() -> None:
    platform = Platform(goes_on=2)
    await crashed(platform, 3)
    assert platform.died == ["w-1", "w-2", "w-3"]
    assert platform.made.over


async def test_a_call_that_is_over_before_has_no_worker_to_die() -> None:
    platform = Platform(goes_on=0)
    with pytest.raises(NotDone, match="the call 'x' was over before 3 workers died under it"):
        await crashed(platform, 3)
    assert platform.died == ["w-1"]


async def test_a_call_that_stands_still_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crash, "SETTLE_S", 0.01)
    platform = Platform(goes_on=9, silent=True)
    with pytest.raises(NotDone, match="the call 'x' stands still"):
        await crashed(platform, 1)
    assert platform.died == ["w-1"]
