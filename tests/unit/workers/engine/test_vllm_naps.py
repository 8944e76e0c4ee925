from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from control_plane.contracts.errors import Conflict, DropReason, Unavailable, WorkerLost
from control_plane.contracts.kv_events import KvBatch, KvEvent
from tests.scripted_worker import scripted_spec
from workers.engine import vllm_engine
from workers.engine.kv_translation import STORED
from workers.engine.step_payload import encode
from workers.engine.vllm_engine import VllmEngine
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


def never(cause: str) -> None:
    raise AssertionError(cause)


async def test_weights_that_were_kept_come_back_by_themselves() -> None:
    llm = Llm()
    naps = Naps(llm, lambda: 0, never)
    await naps.sleep(1)
    with pytest.raises(Unavailable) as refused:
        naps.refuse()
    assert refused.value.reason is DropReason.DRAINING
    await naps.wake()
    naps.refuse()
    assert llm.asked == [("sleep", 1, "wait"), ("wake_up", None)]


async def test_weights_that_were_discarded_are_read_again_before_there_is_a_cache() -> None:
    llm = Llm()
    naps = Naps(llm, lambda: 0, never)
    await naps.sleep(2)
    await naps.wake()
    assert llm.asked[1:] == [("wake_up", ["weights"]), ("reload_weights",), ("wake_up", ["kv_cache"])]


async def test_it_does_not_sleep_while_calls_are_open_nor_twice() -> None:
    open_calls = [2]
    naps = Naps(Llm(), lambda: open_calls[0], never)
    with pytest.raises(Conflict, match="2 open calls"):
        await naps.sleep(1)
    with pytest.raises(Conflict, match="does not sleep"):
        await naps.wake()
    open_calls[0] = 0
    await naps.sleep(1)
    with pytest.raises(Conflict, match="sleeps already, at level 1"):
        await naps.sleep(2)


async def test_one_that_breaks_on_its_way_is_lost_and_asked_nothing_more() -> None:
    lost: list[str] = []
    llm = Llm(broken="sleep")
    naps = Naps(llm, lambda: 0, lost.append)
    with pytest.raises(WorkerLost, match="could not fall asleep: RuntimeError: no memory"):
        await naps.sleep(1)
    with pytest.raises(Unavailable):
        naps.refuse()
    for again in (naps.sleep(1), naps.wake()):
        with pytest.raises(WorkerLost, match="could not fall asleep"):
            await again
    assert lost == ["vLLM could not fall asleep: RuntimeError: no memory"]
    assert llm.asked == [("sleep", 1, "wait")]


@pytest.mark.parametrize(
    ("llm", "level", "cause"),
    [
        (Llm(broken="reload_weights"), 2, "vLLM could not wake: RuntimeError: no memory"),
        (Llm(broken="wake_up"), 1, "vLLM could not wake: RuntimeError: no memory"),
        (Llm(sleeps_on=True), 1, "vLLM was woken, and says that it sleeps"),
    ],
)
async def test_one_that_does_not_wake_is_lost(llm: Llm, level: int, cause: str) -> None:
    lost: list[str] = []
    naps = Naps(llm, lambda: 0, lost.append)
    await naps.sleep(level)
    with pytest.raises(WorkerLost) as told:
        await naps.wake()
    assert (told.value.message, lost) == (cause, [cause])
    assert naps.level == level


async def test_what_is_refused_loses_nothing() -> None:
    lost: list[str] = []
    naps = Naps(Llm(), lambda: 1, lost.append)
    for refused in (naps.sleep(1), naps.sleep(3), naps.wake()):
        with pytest.raises(Conflict):
            await refused
    naps.refuse()
    assert not lost


async def test_an_engine_whose_sleep_breaks_is_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_engine, "_LAST_WORDS_S", 0.01)
    engine = VllmEngine(scripted_spec(tmp_path, engine="vllm", gpus=[0]))
    engine._loop = asyncio.get_running_loop()
    engine._death = engine._loop.create_future()
    engine._sleep_mode = True
    engine._naps = engine._make_naps(Llm(broken="sleep"))
    with pytest.raises(WorkerLost, match="no memory"):
        await engine.sleep(1)
    assert await asyncio.wait_for(engine.dead(), 20) == "vLLM could not fall asleep: RuntimeError: no memory"


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
