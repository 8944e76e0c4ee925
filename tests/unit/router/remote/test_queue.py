"""Calls that wait for a router."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest

from control_plane.contracts.call import RoutedCall
from control_plane.contracts.errors import DropReason, InferDeckError, Unavailable, WorkerLost
from control_plane.contracts.worker import Sampling
from control_plane.router.remote.call import RemoteCall
from control_plane.router.remote.queue import CallQueue
from tests.unit.gateway.fakes import until
from tests.unit.router.stage import RecordingSink


class Rig:
    """A queue whose calls are sent while there is room for them at some router."""

    def __init__(self) -> None:
        self.room = 0
        self.sent: list[int] = []
        self.failed: dict[int, InferDeckError] = {}
        self.queue = CallQueue(send=self._send, over=self._over)

    def _send(self, call: RemoteCall) -> bool:
        if not self.room:
            return False
        self.room -= 1
        self.sent.append(call.seq)
        return True

    def _over(self, call: RemoteCall, error: InferDeckError) -> None:
        self.failed[call.seq] = error
        self.queue.remove(call)

    def wait(self, seq: int, wait_s: float = 30.0) -> RemoteCall:
        routed = RoutedCall(str(seq), "tiny", (1,), Sampling(4), stream=True, arrival_unix=0.0, arrival_mono=0.0)
        owner: Any = None
        call = RemoteCall(owner, routed, RecordingSink(), seq, time.monotonic(), wait_s)
        self.queue.add(call)
        return call


@pytest.fixture
def rig() -> Iterator[Rig]:
    made = Rig()
    yield made
    made.queue.close()


async def test_the_first_that_came_is_sent_first_as_long_as_there_is_a_router(rig: Rig) -> None:
    for seq in (2, 3, 1):
        rig.wait(seq)
    rig.room = 2
    rig.queue.drain()
    assert rig.sent == [1, 2]
    assert [call.seq for call in rig.queue] == [3]
    rig.room = 2
    rig.queue.drain()
    assert rig.sent == [1, 2, 3]
    assert not len(rig.queue)


async def test_one_that_was_removed_is_not_sent(rig: Rig) -> None:
    call = rig.wait(1)
    rig.queue.remove(call)
    rig.queue.remove(call)
    rig.room = 1
    rig.queue.drain()
    assert rig.sent == []


async def test_each_waits_until_its_own_deadline(rig: Rig) -> None:
    rig.wait(1)
    rig.wait(2, 0.01)
    rig.wait(3, 0.02)
    await until(lambda: len(rig.failed) == 2)
    assert list(rig.failed) == [2, 3]
    assert [call.seq for call in rig.queue] == [1]


async def test_what_is_told_tells_whether_the_answer_had_begun(rig: Rig) -> None:
    rig.wait(1, 0.0)
    begun = rig.wait(2, 0.0)
    begun.begun, begun.said = True, [7, 8]
    await until(lambda: len(rig.failed) == 2)
    assert isinstance(rig.failed[1], Unavailable)
    assert rig.failed[1].reason is DropReason.NO_CAPACITY
    assert isinstance(rig.failed[2], WorkerLost)
    assert "after 2 tokens: no other router" in rig.failed[2].message


async def test_nothing_is_told_once_it_is_closed(rig: Rig) -> None:
    rig.wait(1, 0.01)
    rig.queue.close()
    await asyncio.sleep(0.05)
    assert rig.failed == {}
