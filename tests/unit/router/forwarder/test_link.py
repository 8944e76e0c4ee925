"""The stream to a worker: what its frames say of calls that were left, and that there is a next attempt."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from control_plane.contracts.errors import InternalError
from control_plane.contracts.fleet import Endpoint, WorkerPhase
from control_plane.contracts.wire.frames import frame_to_wire
from control_plane.contracts.worker import CallError, Delta, Done, Finish, FinishReason
from control_plane.router.forwarder import link as link_module
from control_plane.router.forwarder.link import WorkerLink
from control_plane.router.prefix_index import PrefixIndex
from control_plane.router.targets import Target
from tests.unit.router.stage import Stage


def unreachable() -> Target:
    endpoint = Endpoint("w", "i1", "127.0.0.1:1", "pool", "tiny", WorkerPhase.READY)
    return Target(endpoint, PrefixIndex().open())


async def test_an_owner_that_fails_on_the_end_of_a_link_does_not_end_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Owner:
        ends = 0

        def link_down(self, target: Target, cause: str) -> float:
            self.ends += 1
            if self.ends == 1:
                raise ZeroDivisionError
            again.set()
            return 60.0

    again = asyncio.Event()
    monkeypatch.setattr(link_module, "AGAIN_S", 0.0)
    owner: Any = Owner()
    link = WorkerLink(unreachable(), "r1", owner)
    async with asyncio.timeout(30):
        await again.wait()
    assert not link.task.done()
    assert "the end of a link could not be dealt with" in caplog.messages
    link.close()


@pytest.mark.parametrize(
    ("end", "heard"),
    [(Delta(4, done=Done(1, 0, 7)), [7]), (Delta(4, error=CallError("internal_error", "no")), [None])],
)
async def test_an_end_of_a_call_that_was_left_is_all_that_is_heard_of_it(end: Delta, heard: list[int]) -> None:
    owner: Any = object()
    target, told = unreachable(), list[int | None]()
    link = WorkerLink(target, "r1", owner)
    target.last_words[4] = told.append
    link._take(frame_to_wire(1, 0.0, [end]).SerializeToString())
    assert told == heard
    assert target.last_words == {}
    link.close()


async def test_a_delta_that_cannot_be_read_is_its_calls_failure_and_no_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage = Stage()
    stage.start("w")
    (_, bad_sink), (_, good_sink) = stage.submit("bad"), stage.submit("good")
    staged = stage.link("w")
    numbers = {request.call.request_id: number for number, request in staged.target.calls.items()}
    link = WorkerLink(staged.target, "r1", stage.dispatcher)
    frame = frame_to_wire(
        1, 0.0, [Delta(numbers["bad"], finish=Finish(FinishReason.STOP, 1)), Delta(numbers["good"], (6, 7), "y")]
    )
    frame.deltas[0].finish.reason = 99  # type: ignore[assignment]
    link._take(frame.SerializeToString())
    assert staged.aborted == ["bad"]
    assert isinstance(bad_sink.error, InternalError)
    assert bad_sink.error.message == "The call's answer could not be read."
    assert good_sink.text == "y"
    assert "a delta could not be read" in caplog.messages
    assert not staged.target.circuit.failures, "its worker is not at fault"
    link.close()


async def test_last_words_that_cannot_be_passed_on_keep_nothing_from_others(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    stage.start("w")
    (handle, _), (_, sink) = stage.submit("left"), stage.submit("stays")
    staged = stage.link("w")
    numbers = {request.call.request_id: number for number, request in staged.target.calls.items()}
    link = WorkerLink(staged.target, "r1", stage.dispatcher)

    def trip(tokens: int) -> None:
        raise ZeroDivisionError(tokens)

    handle.cancel("client_disconnected", trip)
    ends = [Delta(numbers["left"], done=Done(1, 0, 7)), Delta(numbers["stays"], (6, 7), "y")]
    link._take(frame_to_wire(1, 0.0, ends).SerializeToString())
    assert sink.text == "y"
    assert "the last words of a call could not be passed on" in caplog.messages
    link.close()


async def test_a_leaving_worker_leaves_when_its_last_call_had_failed_before_it_was_left() -> None:
    stage = Stage()
    stage.start("v", "w")
    handle, _ = stage.submit("left")
    name = stage.where("left")
    staged = stage.link(name)
    (number,) = staged.target.calls
    link = WorkerLink(staged.target, "r1", stage.dispatcher)
    told: list[int] = []
    stage.publish(*(worker for other, worker in stage.workers.items() if other != name))
    handle.cancel("client_disconnected", told.append)
    assert staged.target.link is not None, "its last words are awaited"
    link._take(frame_to_wire(1, 0.0, [Delta(number, error=CallError("internal_error", "no"))]).SerializeToString())
    assert staged.target.link is None
    assert told == []
    link.close()
