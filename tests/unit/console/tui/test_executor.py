from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from textual.message import Message

from console.at_once import AT_ONCE
from console.tui import executor
from console.tui.messages import DrainEnded, DrainMoved, Previewed, Told
from console.tui.order import Order, Target, Verb
from control_plane.contracts.errors import NotFound, Unavailable
from control_plane.contracts.fleet import ActionResult, DrainProgress
from tests.snapshots.memory import MemoryPlatform


def order(verb: Verb, *names: str, replicas: int = 0) -> Order:
    return Order(verb, tuple(Target(name, "x") for name in names), replicas)


async def done(platform: MemoryPlatform, what: Order) -> list[Message]:
    posted: list[Message] = []
    await asyncio.wait_for(executor.carry_out(what, platform, posted.append), 10)
    return posted


async def previewed(platform: MemoryPlatform, what: Order) -> Previewed:
    posted: list[Message] = []
    await asyncio.wait_for(executor.preview(what, platform, posted.append), 10)
    (message,) = posted
    assert isinstance(message, Previewed)
    return message


async def test_every_target_is_done_and_told() -> None:
    platform = MemoryPlatform()
    told = await done(platform, order(Verb.CANCEL, "r1", "r2"))
    assert platform.done == [("cancel", "r1"), ("cancel", "r2")]
    assert [(m.text, m.severity) for m in told if isinstance(m, Told)] == [
        ("r1: cancel done", "info"),
        ("r2: cancel done", "info"),
    ]


async def test_many_targets_are_done_together_and_counted() -> None:
    class Slow(MemoryPlatform):
        running = most = 0

        async def cancel(self, request_id: str, *, dry_run: bool = False) -> ActionResult:
            self.running += 1
            self.most = max(self.most, self.running)
            await asyncio.sleep(0.01)
            self.running -= 1
            if request_id == "r7" and not dry_run:
                raise NotFound("no request r7")
            return await super().cancel(request_id, dry_run=dry_run)

    platform, what = Slow(), order(Verb.CANCEL, *(f"r{number}" for number in range(30)))
    told = [message for message in await done(platform, what) if isinstance(message, Told)]
    assert 1 < platform.most <= AT_ONCE
    assert len(platform.done) == 29
    assert (told[0].text, told[0].severity) == ("cancel 30 requests: 0 of 30 done", "progress")
    assert [message.text for message in told if not message.key] == ["cancel r7: no request r7"]
    assert (told[-1].text, told[-1].severity) == ("cancel 30 requests: 29 of 30 done", "warning")
    assert len({message.key for message in told if message.key}) == 1, "each count takes the place of the one before"
    platform.most = 0
    await previewed(platform, what)
    assert platform.most > 1


async def test_each_verb_calls_its_own() -> None:
    platform = MemoryPlatform()
    await done(platform, order(Verb.CORDON, "w1"))
    await done(platform, order(Verb.UNCORDON, "w1"))
    await done(platform, order(Verb.SCALE, "pool", replicas=3))
    assert platform.done == [("cordon", "w1"), ("uncordon", "w1"), ("scale", "pool", 3)]


async def test_a_refusal_is_told_in_the_platforms_words_and_the_rest_goes_on() -> None:
    platform = MemoryPlatform(refuse=NotFound("no worker w1"))
    told = await done(platform, order(Verb.CORDON, "w1", "w2"))
    assert [m.text for m in told if isinstance(m, Told)] == ["cordon w1: no worker w1", "cordon w2: no worker w1"]
    assert {m.severity for m in told if isinstance(m, Told)} == {"error"}


async def test_a_drain_is_told_as_it_comes_forward() -> None:
    platform = MemoryPlatform()
    steps = [DrainProgress("w1", 3), DrainProgress("w1", 1), DrainProgress("w1", 0, done=True)]
    for step in steps:
        platform.drain_queue.put_nowait(step)
    told = await done(platform, order(Verb.DRAIN, "w1"))
    assert [m.progress for m in told if isinstance(m, DrainMoved)] == steps
    assert not [m for m in told if isinstance(m, DrainEnded)]


async def test_a_drain_that_cannot_be_followed_is_told() -> None:
    platform = MemoryPlatform()
    platform.drain_queue.put_nowait(DrainProgress("w1", 3))
    platform.drain_queue.put_nowait(Unavailable("gone"))
    *_, last = await done(platform, order(Verb.DRAIN, "w1"))
    assert isinstance(last, DrainEnded)
    assert last.error == "gone"


async def test_a_drain_whose_stream_just_stops_is_told() -> None:
    class Stopping(MemoryPlatform):
        async def drain(self, worker_id: str, *, dry_run: bool = False) -> AsyncIterator[DrainProgress]:
            yield DrainProgress(worker_id, 3)

    *_, last = await done(Stopping(), order(Verb.DRAIN, "w1"))
    assert isinstance(last, DrainEnded)
    assert "stays cordoned" in last.error


async def test_a_preview_is_the_same_call_without_its_last_step() -> None:
    platform = MemoryPlatform()
    assert (await previewed(platform, order(Verb.CORDON, "w1"))).text == "would cordon w1"
    assert (await previewed(platform, order(Verb.CANCEL, "a", "b"))).text == "would cancel a; would cancel b"
    shown = await previewed(platform, order(Verb.DRAIN, "w1", "w2"))
    assert shown.text == "would cordon w1 and wait for 3 requests; would cordon w2 and wait for 3 requests"
    assert platform.done == []


async def test_the_preview_of_a_scale_names_who_comes_or_goes() -> None:
    class Scaling(MemoryPlatform):
        async def scale(self, pool: str, replicas: int, *, dry_run: bool = False) -> ActionResult:
            return ActionResult(True, "would scale pool/p from 2 to 1", ("p-2",), 3)

    shown = await previewed(Scaling(), order(Verb.SCALE, "p", replicas=1))
    assert shown.text == "would scale pool/p from 2 to 1: p-2, 3 in flight there"


async def test_a_way_out_is_told_with_an_error() -> None:
    platform = MemoryPlatform(refuse=NotFound("no worker w1", hint="inferdeck get workers"))
    (told,) = await done(platform, order(Verb.CORDON, "w1"))
    assert isinstance(told, Told)
    assert told.text == "cordon w1: no worker w1 (try: inferdeck get workers)"


async def test_a_preview_that_fails_says_so() -> None:
    shown = await previewed(MemoryPlatform(refuse=NotFound("no worker w1")), order(Verb.CORDON, "w1"))
    assert shown.failed
    assert shown.text == "no worker w1"
