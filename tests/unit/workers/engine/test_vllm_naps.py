from __future__ import annotations

from typing import Any

import pytest

from control_plane.contracts.errors import Conflict, DropReason, Unavailable, WorkerLost
from control_plane.contracts.kv_events import KvBatch, KvEvent
from workers.engine.kv_translation import STORED
from workers.engine.step_payload import encode
from workers.engine.vllm_kv import CacheEvents
from workers.engine.vllm_naps import Naps


class Llm:
    """What ``AsyncLLM`` is asked; ``broken`` names the call that fails."""

    def __init__(self, broken: str = "", sleeps_on: bool = False) -> None:
        self.asked: list[Any] = []
        self._broken = broken
        self._sleeps_on = sleeps_on

    async def _ask(self, name: str, *what: Any) -> None:
        self.asked.append((name, *what))
        if name == self._broken:
            raise RuntimeError("no memory")

    async def sleep(self, level: int, mode: str) -> None:
        await self._ask("sleep", level, mode)

    async def wake_up(self, tags: list[str] | None = None) -> bool:
        await self._ask("wake_up", tags)
        return not self._sleeps_on

    async def collective_rpc(self, method: str) -> None:
        await self._ask(method)

    async def is_sleeping(self) -> bool:
        return self._sleeps_on


async def test_weights_that_were_kept_come_back_by_themselves() -> None:
    llm = Llm()
    naps = Naps(llm, lambda: 0)
    await naps.sleep(1)
    with pytest.raises(Unavailable) as refused:
        naps.refuse()
    assert refused.value.reason is DropReason.DRAINING
    await naps.wake()
    naps.refuse()
    assert llm.asked == [("sleep", 1, "wait"), ("wake_up", None)]


async def test_weights_that_were_discarded_are_read_again_before_there_is_a_cache() -> None:
    llm = Llm()
    naps = Naps(llm, lambda: 0)
    await naps.sleep(2)
    await naps.wake()
    assert llm.asked[1:] == [("wake_up", ["weights"]), ("reload_weights",), ("wake_up", ["kv_cache"])]


async def test_it_does_not_sleep_while_calls_are_open_nor_twice() -> None:
    open_calls = [2]
    naps = Naps(Llm(), lambda: open_calls[0])
    with pytest.raises(Conflict, match="2 open calls"):
        await naps.sleep(1)
    with pytest.raises(Conflict, match="does not sleep"):
        await naps.wake()
    open_calls[0] = 0
    await naps.sleep(1)
    with pytest.raises(Conflict, match="sleeps already, at level 1"):
        await naps.sleep(2)


async def test_what_goes_wrong_is_told_and_leaves_it_as_it_was() -> None:
    llm = Llm(broken="sleep")
    naps = Naps(llm, lambda: 0)
    with pytest.raises(WorkerLost, match="could not fall asleep: RuntimeError: no memory"):
        await naps.sleep(1)
    assert naps.level == 0
    assert llm.asked[1:] == [("wake_up", None)], "vLLM schedules nothing from the moment it was asked"
    naps = Naps(Llm(broken="reload_weights"), lambda: 0)
    await naps.sleep(2)
    with pytest.raises(WorkerLost, match="could not wake: RuntimeError: no memory"):
        await naps.wake()
    assert naps.level == 2
    naps = Naps(Llm(sleeps_on=True), lambda: 0)
    await naps.sleep(1)
    with pytest.raises(WorkerLost, match="says that it sleeps"):
        await naps.wake()
    assert naps.level == 1


def test_what_was_cached_is_forgotten_once() -> None:
    told: list[KvBatch] = []
    cache = CacheEvents(told.extend)
    cache.receive([encode((1, 2, [(STORED, [11], None, [5, 6], "")]))])
    cache.forget()
    assert told[-1].events == (KvEvent(cleared=True),)
    assert told[-1].seq == 2
    assert not cache.snapshot().hashes
    cache.forget()
    assert len(told) == 2
