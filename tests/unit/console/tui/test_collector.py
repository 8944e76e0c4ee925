"""Listening: what is posted when the platform speaks, breaks, falls silent and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from textual.message import Message

from console.tui.collector import collect, follow
from console.tui.messages import Heard, Learnt, LinkLost, LogRead
from control_plane.contracts.errors import Unavailable
from control_plane.contracts.fleet import Event
from tests.snapshots.memory import NOW, MemoryPlatform, snapshot


class Mailbox:
    def __init__(self) -> None:
        self.got: asyncio.Queue[Message] = asyncio.Queue()

    def post(self, message: Message) -> None:
        self.got.put_nowait(message)

    async def next(self) -> Message:
        return await asyncio.wait_for(self.got.get(), 10)


@asynccontextmanager
async def listening(platform: MemoryPlatform, silence_s: float = 10.0) -> AsyncIterator[Mailbox]:
    box = Mailbox()
    task = asyncio.create_task(collect(platform, box.post, silence_s=silence_s, retry_s=0.001))
    yield box
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_snapshots_and_the_events_before_them_are_posted() -> None:
    past = (Event(1, NOW, "started", "x", "y"),)
    platform = MemoryPlatform(history=past)
    async with listening(platform) as box:
        first, second = snapshot(NOW), snapshot(NOW + 1)
        platform.queue.put_nowait(first)
        platform.queue.put_nowait(second)
        heard, learnt, again = await box.next(), await box.next(), await box.next()
    assert isinstance(heard, Heard)
    assert heard.snapshot is first
    assert isinstance(learnt, Learnt)
    assert learnt.events == past
    assert isinstance(again, Heard)
    assert again.snapshot is second


async def test_a_broken_connection_is_told_and_made_again() -> None:
    platform = MemoryPlatform()
    async with listening(platform) as box:
        platform.queue.put_nowait(Unavailable("cannot reach it: refused"))
        lost = await box.next()
        assert isinstance(lost, LinkLost)
        assert lost.error == "cannot reach it: refused"
        platform.queue.put_nowait(snapshot())
        assert isinstance(await box.next(), Heard)
    assert platform.connections == 2


async def test_silence_is_a_lost_connection() -> None:
    platform = MemoryPlatform()
    async with listening(platform, silence_s=0.02) as box:
        lost = await box.next()
        assert isinstance(lost, LinkLost)
        assert lost.error.startswith("nothing heard for")
        platform.queue.put_nowait(snapshot())
        assert isinstance(await _skip(box, LinkLost), Heard)


async def test_a_stream_that_ends_is_a_lost_connection() -> None:
    class Ending(MemoryPlatform):
        async def watch(self) -> AsyncIterator[object]:  # type: ignore[override]
            yield snapshot()

    async with listening(Ending()) as box:
        assert isinstance(await box.next(), Heard)
        assert isinstance(await box.next(), Learnt)
        lost = await box.next()
        assert isinstance(lost, LinkLost)
        assert "ended" in lost.error


async def test_events_that_cannot_be_told_are_no_reason_to_stop() -> None:
    class Forgetful(MemoryPlatform):
        async def events(self) -> AsyncIterator[Event]:
            raise Unavailable("no store")
            yield

    platform = Forgetful()
    async with listening(platform) as box:
        platform.queue.put_nowait(snapshot())
        assert isinstance(await box.next(), Heard)
        learnt = await box.next()
        assert isinstance(learnt, Learnt)
        assert learnt.events == ()


async def test_a_log_is_read_again_from_its_tail_when_it_breaks() -> None:
    platform = MemoryPlatform(log=b"line\n")
    box = Mailbox()
    task = asyncio.create_task(follow(platform, "w1", box.post, retry_s=0.001))
    assert await box.next() == LogRead("w1", anew=True)
    assert _data(await box.next()) == b"line\n"
    platform.log_queue.put_nowait(Unavailable("gone"))
    broken = await box.next()
    assert isinstance(broken, LogRead)
    assert broken.error == "gone"
    anew = await box.next()
    assert isinstance(anew, LogRead)
    assert anew.anew
    assert _data(await box.next()) == b"line\n"
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_a_call_whose_connection_was_closed_is_an_error_and_not_an_end() -> None:
    class Closing(MemoryPlatform):
        async def logs(self, target: str, tail_lines: int) -> AsyncIterator[bytes]:
            raise asyncio.CancelledError
            yield b""

    box = Mailbox()
    task = asyncio.create_task(follow(Closing(), "w1", box.post, retry_s=0.001))
    await box.next()
    broken = await box.next()
    assert isinstance(broken, LogRead)
    assert "connection ended" in broken.error
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert task.cancelled()


def _data(message: Message) -> bytes:
    assert isinstance(message, LogRead)
    return message.data


async def _skip(box: Mailbox, kind: type[Message]) -> Message:
    while isinstance(message := await box.next(), kind):
        pass
    return message
