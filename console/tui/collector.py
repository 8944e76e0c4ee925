"""Background work: listening to the platform, and reading a log. It posts, and touches no widget."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from typing import TypeVar, cast

from textual.message import Message

from console.tui.feed import Feed
from console.tui.messages import (
    Decided,
    Explained,
    Heard,
    KeysRead,
    Learnt,
    LinkLost,
    LogRead,
    PolicyRead,
    Stepped,
    Timed,
)
from control_plane.contracts.errors import InferDeckError, Unavailable
from control_plane.contracts.fleet import Event

T = TypeVar("T")
Post = Callable[[Message], object]

SILENCE_S = 8.0  # longer than connecting takes, and than the platform may stay silent
FIRST_RETRY_S, LAST_RETRY_S = 0.5, 5.0
TAIL_LINES = 500
KEYS_S = 2.0
_EVENTS_S = 3.0


def closing(stream: AsyncIterator[T]) -> aclosing[AsyncGenerator[T, None]]:
    """Feeds promise iterators; theirs are generators, which have to be closed where they are read."""
    return aclosing(cast("AsyncGenerator[T, None]", stream))


@contextmanager
def one_call() -> Iterator[None]:
    """A call whose connection was closed under it is reported by gRPC as if this task had been cancelled."""
    try:
        yield
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise Unavailable("the connection ended before the platform answered") from None


async def collect(feed: Feed, post: Post, *, silence_s: float = SILENCE_S, retry_s: float = FIRST_RETRY_S) -> None:
    """Listen for ever: every snapshot is posted, every loss too, and then it is tried again."""
    delay = retry_s
    while True:
        error = "the platform ended the connection"
        try:
            async with closing(feed.watch()) as stream:
                first = True
                while True:
                    async with asyncio.timeout(silence_s):
                        snapshot = await anext(stream)
                    post(Heard(snapshot))
                    delay = retry_s
                    if first:
                        first = False
                        post(Learnt(await _known_events(feed)))
        except StopAsyncIteration:
            pass
        except TimeoutError:
            error = f"nothing heard for {silence_s:.0f} s"
        except InferDeckError as failure:
            error = failure.message
        post(LinkLost(error))
        await asyncio.sleep(delay)
        delay = min(delay * 2, max(retry_s, LAST_RETRY_S))


async def _read(feed: Feed, target: str, post: Post) -> None:
    async with closing(feed.logs(target, TAIL_LINES)) as stream:
        post(LogRead(target, anew=True))
        async for piece in stream:
            post(LogRead(target, piece))


async def _known_events(feed: Feed) -> tuple[Event, ...]:
    """What happened before; a platform that cannot tell is no reason to stop listening."""
    events: list[Event] = []
    with suppress(InferDeckError, TimeoutError), one_call():
        async with asyncio.timeout(_EVENTS_S), closing(feed.events()) as stream:
            events.extend([event async for event in stream])
    return tuple(events)


async def follow(feed: Feed, target: str, post: Post, *, retry_s: float = 2.0) -> None:
    """Read a log for ever; when it breaks, say why, and read it from its tail again."""
    while True:
        error = "the log ended"
        try:
            with one_call():
                await _read(feed, target, post)
        except InferDeckError as failure:
            error = failure.message
        post(LogRead(target, error=error))
        await asyncio.sleep(retry_s)


async def follow_steps(feed: Feed, worker_id: str, post: Post, *, retry_s: float = 1.0) -> None:
    """Read a worker's engine steps for ever; when they end, say why, and begin anew from the block tables."""
    while True:
        error = "the steps ended"
        try:
            with one_call():
                anew = True
                async with closing(feed.steps(worker_id)) as stream:
                    async for frame in stream:
                        post(Stepped(worker_id, frame, anew=anew))
                        anew = False
        except InferDeckError as failure:
            error = failure.message
        post(Stepped(worker_id, error=error))
        await asyncio.sleep(retry_s)


async def ask_timeline(feed: Feed, request_id: str, post: Post) -> None:
    """Where a request's time went. No answer is no news: its stages are known from the snapshot."""
    with suppress(InferDeckError), one_call():
        post(Timed(request_id, await feed.timeline(request_id)))


async def ask_explanation(feed: Feed, request_id: str, post: Post) -> None:
    """Why a request went where it went."""
    try:
        with one_call():
            news = Explained(request_id, await feed.explain(request_id))
    except InferDeckError as failure:
        news = Explained(request_id, error=failure.message)
    post(news)


async def follow_decisions(feed: Feed, post: Post, *, retry_s: float = 1.0) -> None:
    """Hear of decisions for ever; when they end, begin anew."""
    while True:
        try:
            with one_call():
                anew = True
                async with closing(feed.decisions()) as stream:
                    async for decisions in stream:
                        post(Decided(decisions, anew=anew))
                        anew = False
        except InferDeckError as failure:
            post(Decided(error=failure.message))
        await asyncio.sleep(retry_s)


async def ask_blocks(feed: Feed, worker_id: str, post: Post) -> None:
    """A worker's KV cache, from its engine. No answer is no news: what follows from the steps stands."""
    with suppress(InferDeckError), one_call():
        post(Stepped(worker_id, snapshot=await feed.blocks(worker_id)))


async def ask_policy(feed: Feed, post: Post) -> None:
    """The policy in force, or why it cannot be told."""
    try:
        with one_call():
            news = PolicyRead(await feed.policy())
    except InferDeckError as failure:
        news = PolicyRead(error=failure.message)
    post(news)


async def ask_keys(feed: Feed, post: Post) -> None:
    """Callers' keys once. No answer is no news: nobody looks at them yet."""
    with suppress(InferDeckError), one_call():
        post(KeysRead(await feed.keys()))


async def follow_keys(feed: Feed, post: Post, *, every_s: float = KEYS_S) -> None:
    """Ask for callers' keys every so often, for ever."""
    while True:
        try:
            with one_call():
                news = KeysRead(await feed.keys())
        except InferDeckError as failure:
            news = KeysRead(error=failure.message)
        post(news)
        await asyncio.sleep(every_s)
