"""A gateway's stream to a router: what its frames do to the calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from control_plane.contracts.call import RoutedCall
from control_plane.contracts.errors import InferDeckError, InternalError, Unavailable
from control_plane.contracts.fleet import RouterEndpoint
from control_plane.contracts.v1 import router_pb2 as pb
from control_plane.contracts.wire.frames import fill_frame
from control_plane.contracts.wire.routed import refusal_to_wire
from control_plane.contracts.worker import Delta, Done, Finish, FinishReason, Sampling
from control_plane.router.remote import link as link_module
from control_plane.router.remote.call import RemoteCall
from control_plane.router.remote.link import RouterLink
from tests.unit.router.stage import RecordingSink


class Owner:
    """Hears of nothing that these tests look at."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *told: None


@pytest.fixture
async def link() -> AsyncIterator[RouterLink]:
    """One that never gets to connect: its frames are the test's."""
    owner: Any = Owner()
    made = RouterLink(RouterEndpoint("r1", "127.0.0.1:1"), "g1", owner)
    yield made
    made.close()


def submitted(link: RouterLink, sink: RecordingSink) -> RemoteCall:
    routed = RoutedCall("a", "tiny", (1,), Sampling(4), stream=False, arrival_unix=0.0, arrival_mono=0.0)
    owner: Any = Owner()
    call = RemoteCall(owner, routed, sink, 1, 0.0, 1.0)
    link.submit(call, routed)
    return call


def left(link: RouterLink, told: list[int]) -> int:
    """A call whose client has left; returns its number on the stream."""
    call = submitted(link, RecordingSink())
    link.withdraw(call, "client_left", told.append)
    return call.number


def end(number: int, output_tokens: int) -> pb.RoutedFrame:
    frame = pb.RoutedFrame(seq=1)
    done = Done(1, 0, output_tokens)
    fill_frame(frame.tokens, [Delta(number, (5,), "x", finish=Finish(FinishReason.STOP, 3), done=done)])
    return frame


async def test_an_end_that_was_on_its_way_when_the_client_left_tells_what_was_used(link: RouterLink) -> None:
    told: list[int] = []
    link._take(end(left(link, told), 3).SerializeToString())
    assert told == [3]
    assert link._last_words == {}


async def test_an_end_without_anyone_who_asked_is_passed_over(link: RouterLink) -> None:
    sink = RecordingSink()
    running = submitted(link, sink)
    frame = end(7, 3)
    fill_frame(frame.tokens, [Delta(running.number, (6,), "y")])
    link._take(frame.SerializeToString())
    assert sink.text == "y"


async def test_nobody_waits_for_the_last_words_of_a_call_that_was_refused(link: RouterLink) -> None:
    told: list[int] = []
    number = left(link, told)
    frame = pb.RoutedFrame(seq=1, refusals=[refusal_to_wire(number, Unavailable("full"))])
    link._take(frame.SerializeToString())
    assert link._last_words == {}
    assert told == [], "what it had generated is not known"


async def test_last_words_are_told_once(link: RouterLink) -> None:
    told: list[int] = []
    number = left(link, told)
    for seq in (1, 2):
        frame = pb.RoutedFrame(seq=seq)
        frame.last_words.add(call=number, output_tokens=9)
        link._take(frame.SerializeToString())
    assert told == [9]


async def test_a_delta_that_cannot_be_read_is_its_calls_failure_and_no_others(
    link: RouterLink, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    refused: list[tuple[RemoteCall, InferDeckError]] = []
    monkeypatch.setattr(link._owner, "refused", lambda link, call, error: refused.append((call, error)), raising=False)
    sink = RecordingSink()
    bad, good = submitted(link, RecordingSink()), submitted(link, sink)
    frame = end(bad.number, 3)
    frame.tokens.deltas[0].finish.reason = 99  # type: ignore[assignment]
    other = frame.tokens.deltas.add(call=good.number, text="y")
    other.token_ids.extend([6, 7])
    link._take(frame.SerializeToString())
    ((call, error),) = refused
    assert call is bad
    assert isinstance(error, InternalError)
    assert list(link.calls.values()) == [good]
    assert sink.text == "y"
    assert "a delta could not be read" in caplog.messages


async def test_an_owner_that_fails_on_the_end_of_a_link_does_not_end_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Trips(Owner):
        ends = 0

        def link_down(self, link: RouterLink, cause: str) -> None:
            self.ends += 1
            if self.ends == 2:
                again.set()
            raise ZeroDivisionError

    again = asyncio.Event()
    monkeypatch.setattr(link_module, "FIRST_BACKOFF_S", 0.0)
    owner: Any = Trips()
    link = RouterLink(RouterEndpoint("r1", "127.0.0.1:1"), "g1", owner)
    async with asyncio.timeout(30):
        await again.wait()
    assert not link.task.done()
    assert "the end of a link could not be dealt with" in caplog.messages
    link.close()
