"""KV events of vLLM's own schedulers, in step with the model and one step ahead of it, without a model: what is told is
what its block pool can hit."""

from __future__ import annotations

import random
from typing import Any

import pytest

from control_plane.contracts.block_hash import block_hashes
from control_plane.contracts.kv_events import KvFrame
from control_plane.contracts.kv_mirror import KvMirror
from tests.real_vllm.scheduler_stand import BLOCK, Stand, check
from workers.engine import vllm_kv_events
from workers.engine.vllm_kv_events import Publisher

pytestmark = [pytest.mark.forks, pytest.mark.core_here]

SHARED = list(range(100, 196))  # three blocks


@pytest.fixture(params=[False, True], ids=["in step", "one ahead"])
def ahead(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


class Follower:
    """Checks after every step that was told."""

    def __init__(self, stand: Stand) -> None:
        self.stand = stand
        self.mirror = KvMirror()
        self._told = 0

    def check(self) -> None:
        stand = self.stand
        assert not stand.kv.unavailable
        assert self.mirror.apply(KvFrame(batches=tuple(stand.batches[self._told :])))
        self._told = len(stand.batches)
        assert stand.kv.translation.known() == stand.cache()
        assert stand.kv.translation.unnamed == 0
        assert self.mirror.hashes == set(stand.kv.snapshot().hashes)
        assert len(self.mirror.hashes) == len(stand.cache())

    def run(self) -> None:
        while self.stand.scheduler.has_requests() or self.stand._flying:
            landing = len(self.stand._flying)
            self.stand.turn()
            # A schedule that is still in flight has changed the pool, and is told with the next output.
            if len(self.stand._flying) <= landing or not self.stand.ahead:
                self.check()


def told_hits(mirror: KvMirror, prompt: list[int], salt: str = "") -> int:
    names = block_hashes(prompt, BLOCK, salt)[: (len(prompt) - 1) // BLOCK]
    return next((index for index, name in enumerate(names) if name not in mirror.hashes), len(names))


def test_what_is_told_is_what_the_pool_can_hit(ahead: bool) -> None:
    """Evictions, preemptions, equal prompts at once, shared prefixes, salts, aborts, cleared caches."""
    removed = preempted = cleared = found = 0
    for seed in range(15):
        chosen = random.Random(seed)
        stand = Stand(blocks=chosen.choice((13, 21, 33)), sequences=6, ahead=ahead, kv_events=True)
        follower = Follower(stand)
        prompts: list[tuple[list[int], str]] = []
        for round_number in range(5):
            for number in range(chosen.randrange(1, 7)):
                head = SHARED[: chosen.choice((0, 32, 40, 96))]
                tail = [chosen.randrange(1000, 1004) for _ in range(chosen.randrange(1, 150))]
                prompt, salt = head + tail, chosen.choice(("", "", "tenant"))
                prompts.append((prompt, salt))
                for copy in range(chosen.choice((1, 1, 2))):
                    stand.add(f"r{round_number}.{number}.{copy}", prompt, chosen.randrange(1, 70), salt=salt)
                if chosen.random() < 0.2:
                    stand.turn()
                    stand.abort(f"r{round_number}.{number}.0")
            follower.run()
            for prompt, salt in prompts:
                hits = stand.hits(prompt, salt)
                assert told_hits(follower.mirror, prompt, salt) == hits
                assert told_hits(follower.mirror, prompt, "nobody") == 0
                found += hits > 0
            if chosen.random() < 0.2:
                assert stand.scheduler.reset_prefix_cache()
        check(stand)
        preempted += sum(len(step.preempted) for step in stand.steps)
        events = [event for batch in stand.batches for event in batch.events]
        removed += sum(len(event.removed) for event in events)
        cleared += sum(event.cleared for event in events)
    assert removed > 300
    assert preempted > 5
    assert cleared > 5
    assert found > 100


def test_a_content_that_two_blocks_hold_is_removed_with_the_last(ahead: bool) -> None:
    """Two that share three blocks and then say the same each fill a fourth of their own."""
    stand = Stand(blocks=9, sequences=2, budget=256, ahead=ahead, kv_events=True)
    follower = Follower(stand)
    for name in ("one", "two"):
        stand.add(name, range(100, 197), 40)
    follower.run()
    names = block_hashes([*range(100, 197), *[7] * 31], BLOCK)
    assert follower.mirror.hashes == set(names)
    assert stand.cached_blocks() == 5
    stand.add("other", range(1000, 1000 + 4 * BLOCK), 1)  # takes three empty blocks and one of the fourths
    follower.run()
    assert stand.cached_blocks() == 4 + 4
    assert set(names) <= follower.mirror.hashes
    stand.add("more", range(2000, 2000 + BLOCK), 1)  # and the other one
    follower.run()
    assert set(names) - follower.mirror.hashes == {names[3]}


def test_a_reset_is_told_with_the_next_step(ahead: bool) -> None:
    stand = Stand(ahead=ahead, kv_events=True)
    follower = Follower(stand)
    stand.add("a", SHARED, 2)
    follower.run()
    assert len(follower.mirror.hashes) == 3
    assert stand.scheduler.reset_prefix_cache()
    stand.add("b", range(40), 2)
    follower.run()
    assert follower.mirror.hashes == set(block_hashes(range(40), BLOCK))
    assert [event.cleared for event in stand.batches[-1].events] == [True, False]


def test_a_publisher_that_fails_says_so_and_the_scheduler_goes_on(ahead: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    stand = Stand(ahead=ahead, kv_events=True)
    stand.add("a", SHARED, 2)
    stand.run()

    def broken(event: Any) -> Any:
        raise RuntimeError("of the test")

    monkeypatch.setattr(vllm_kv_events, "_told", broken)
    stand.add("b", range(1000, 1100), 50)
    steps = len(stand.run())
    assert stand.kv.unavailable == "an event could not be told: RuntimeError: of the test"
    monkeypatch.undo()
    stand.add("c", range(3000, 3100), 5)
    assert len(stand.run()) > steps
    assert len(stand.batches) == 1


def test_a_payload_that_is_lost_ends_the_events() -> None:
    stand = Stand(kv_events=True)
    publisher = stand.scheduler.kv_event_publisher
    assert isinstance(publisher, Publisher)
    publisher._seq = 4
    stand.add("a", SHARED, 2)
    stand.run()
    assert stand.kv.unavailable == "an event could not be read: ValueError: payload 5 came after 0"


def test_a_vllm_that_is_not_known_tells_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_kv_events, "_USED", (("vllm.v1.core.block_pool", "BlockPool", "take_events_anew", ()),))
    stand = Stand(kv_events=True)
    stand.add("a", SHARED, 2)
    stand.run()
    assert "lacks BlockPool.take_events_anew" in stand.kv.unavailable
    assert stand.batches == []


def test_events_that_are_off_leave_vllm_as_it_is() -> None:
    stand = Stand()
    stand.add("a", SHARED, 2)
    stand.run()
    pool = stand.scheduler.kv_cache_manager.block_pool
    assert not isinstance(pool, vllm_kv_events._ToldPool)
    assert (stand.batches, pool.kv_event_queue) == ([], [])
    assert not isinstance(stand.scheduler.kv_event_publisher, Publisher)
