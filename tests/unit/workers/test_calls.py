from __future__ import annotations

import asyncio

from control_plane.contracts.worker import CallError, Delta, Done, Generate, Sampling
from workers.calls import BACKLOG, CallStream, CallTable, RunningCall


class Room:
    def __init__(self) -> None:
        self.aborted: list[int] = []
        self.table = CallTable(self.aborted.append)

    def open(self, stream: CallStream, number: int, request_id: str) -> RunningCall:
        generate = Generate(self.table.next_number(), request_id, [1, 2], Sampling(max_tokens=9), priority=3)
        return self.table.open(stream, number, generate)


DONE = Done(2, 0, 1)


async def test_two_routers_may_use_the_same_number() -> None:
    room = Room()
    one, two = CallStream(room.table), CallStream(room.table)
    first, second = room.open(one, 7, "a"), room.open(two, 7, "b")
    assert first.generate.call != second.generate.call
    one.push([Delta(first.generate.call, [1], "x")])
    two.push([Delta(second.generate.call, [2], "y")])
    assert await one.take() == [Delta(7, [1], "x")]
    assert await two.take() == [Delta(7, [2], "y")]


async def test_all_that_waits_is_taken_at_once() -> None:
    room = Room()
    stream = CallStream(room.table)
    call = room.open(stream, 1, "a").generate.call
    taker = asyncio.create_task(stream.take())
    await asyncio.sleep(0)
    stream.push([Delta(call, [1], "a")])
    stream.push([Delta(call, [2], "b")])
    taken = await taker
    assert taken is not None
    assert [delta.text for delta in taken] == ["a", "b"]


async def test_a_call_ends_once_and_later_words_are_dropped() -> None:
    room = Room()
    stream = CallStream(room.table)
    call = room.open(stream, 1, "a").generate.call
    stream.push([Delta(call, done=DONE), Delta(call, [9], "late")])
    assert await stream.take() == [Delta(1, done=DONE)]
    assert (len(room.table), room.table.finished) == (0, 1)
    assert not room.table.has_request("", "a")


async def test_a_number_and_an_id_can_be_used_again_after_the_end() -> None:
    room = Room()
    stream = CallStream(room.table)
    stream.push([Delta(room.open(stream, 1, "a").generate.call, done=DONE)])
    second = room.open(stream, 1, "a")
    stream.push([Delta(second.generate.call, [5], "again")])
    taken = await stream.take()
    assert taken is not None
    assert taken[-1].text == "again"


async def test_a_router_that_goes_takes_its_calls_with_it() -> None:
    room = Room()
    gone, stays = CallStream(room.table), CallStream(room.table)
    lost = [room.open(gone, number, f"gone-{number}").generate.call for number in (1, 2)]
    kept = room.open(stays, 1, "kept")
    gone.abort_all()
    assert room.aborted == lost
    assert [request.request_id for request in room.table.list()] == ["kept"]
    assert room.table.by_engine_call == {kept.generate.call: kept}


async def test_failing_all_tells_every_router_and_frees_the_engine() -> None:
    room = Room()
    streams = [CallStream(room.table) for _ in range(2)]
    numbers = [room.open(stream, 5, f"r{index}").generate.call for index, stream in enumerate(streams)]
    error = CallError("engine_dead", "gone")
    room.table.fail_all(error)
    assert [await stream.take() for stream in streams] == [[Delta(5, error=error)]] * 2
    assert room.aborted == numbers
    async with asyncio.timeout(5):
        await room.table.idle()


async def test_aborting_by_request_id() -> None:
    room = Room()
    call = room.open(CallStream(room.table), 1, "a").generate.call
    assert room.table.abort_request("a")
    assert not room.table.abort_request("b")
    assert room.aborted == [call]


async def test_routers_may_use_the_same_request_id_and_an_abort_hits_all_of_them() -> None:
    room = Room()
    one, two = CallStream(room.table), CallStream(room.table)
    one.router_id, two.router_id = "g1", "g2"
    first = room.open(one, 1, "a")
    assert room.table.has_request("g1", "a")
    assert not room.table.has_request("g2", "a")
    second = room.open(two, 1, "a")
    other = room.open(two, 2, "b")
    assert room.table.abort_request("a")
    assert room.aborted == [first.generate.call, second.generate.call]
    one.push([Delta(first.generate.call, done=DONE)])
    assert not room.table.has_request("g1", "a")
    assert room.table.has_request("g2", "a")
    assert other.generate.call in room.table.by_engine_call


async def test_a_router_that_renames_itself_takes_nothing_with_it() -> None:
    room = Room()
    stream = CallStream(room.table)
    stream.router_id = "g1"
    call = room.open(stream, 1, "a")
    stream.router_id = "g2"
    room.table.close(call)
    assert not room.table.has_request("g1", "a")


async def test_a_refused_call_never_counts_as_finished() -> None:
    room = Room()
    room.table.forget(room.open(CallStream(room.table), 1, "a"))
    assert (len(room.table), room.table.finished) == (0, 0)


async def test_what_waits_is_written_before_a_stream_closes() -> None:
    room = Room()
    stream = CallStream(room.table)
    stream.fail(3, CallError("draining", "no"))
    stream.close()
    assert await stream.take() is not None
    assert await stream.take() is None


async def test_a_router_that_never_reads_is_given_up_and_nothing_is_kept_for_it() -> None:
    room = Room()
    told: list[bool] = []
    stream = CallStream(room.table, lambda: told.append(True))
    call = room.open(stream, 1, "a").generate.call
    for _ in range(BACKLOG):
        stream.push([Delta(call, [1], "x")])
    assert told == []
    stream.push([Delta(call, [1], "x")])
    assert stream.overrun
    stream.push([Delta(call, [1], "x")])
    stream.fail(9, CallError("draining", "no"))
    assert told == [True]
    assert await stream.take() is None
    stream.abort_all()
    assert room.aborted == [call]


async def test_a_listed_request_says_how_far_it_is() -> None:
    room = Room()
    stream = CallStream(room.table)
    stream.router_id = "g1"
    call = room.open(stream, 1, "a")
    (before,) = room.table.list()
    stream.push([Delta(call.generate.call, [1, 2, 3], "x")])
    (after,) = room.table.list()
    assert (before.output_tokens, before.first_token_seen) == (0, False)
    assert (after.output_tokens, after.first_token_seen) == (3, True)
    assert (after.router_id, after.prompt_tokens, after.max_tokens, after.priority) == ("g1", 2, 9, 3)
