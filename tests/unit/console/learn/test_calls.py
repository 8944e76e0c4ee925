from __future__ import annotations

import asyncio

import pytest

from console.http import Endpoint
from console.learn.calls import Caller
from console.learn.keyring import Keyring
from control_plane.contracts.errors import InternalError
from control_plane.contracts.fleet import RequestPhase, RequestView, Stage
from lessons.actions import Calls, Shape
from tests.unit.console.openai_server import Call, serving


async def test_prompts_are_new_but_for_the_prefix_that_is_meant_to_be_shared() -> None:
    calls: list[Call] = []

    async def script(call: Call) -> None:
        calls.append(call)
        await call.answer(["a", "b"])

    async with serving(script) as server:
        caller = Caller(Endpoint.parse(server.url), Keyring("key"), "m", "7-1")
        await caller.start(Calls((Shape("x", 20, 5, prefix_tokens=12), Shape("y", 9, 4, stream=False)), 4, at_once=4))
        await caller.close()
    bodies = {call.headers["x-request-id"]: call.body for call in calls}
    assert sorted(bodies) == ["7-1-1-x", "7-1-2-y", "7-1-3-x", "7-1-4-y"]
    first, second = bodies["7-1-1-x"], bodies["7-1-3-x"]
    assert first["prompt"][:12] == second["prompt"][:12]
    assert first["prompt"][12:] != second["prompt"][12:]
    assert [len(body["prompt"]) for _, body in sorted(bodies.items())] == [20, 9, 20, 9]
    assert (first["max_tokens"], first["stream"], bodies["7-1-2-y"]["stream"]) == (5, True, False)


async def test_calls_of_a_name_take_its_beginnings_in_turn_and_others_may_begin_alike() -> None:
    prompts: dict[str, list[int]] = {}

    async def script(call: Call) -> None:
        prompts[call.headers["x-request-id"]] = call.body["prompt"][:6]
        await call.answer(["a"])

    async with serving(script) as server:
        caller = Caller(Endpoint.parse(server.url), Keyring("key"), "m", "s")
        await caller.start(Calls((Shape("x", 9, 1, prefix_tokens=6, prefixes=2),), 4))
        await caller.start(
            Calls((Shape("y", 9, 1, prefix_tokens=6, prefix_of="x"), Shape("z", 9, 1, prefix_tokens=6)), 2)
        )
        await caller.close()
    first, second, third, fourth, alike, other = (prompts[name] for name in sorted(prompts))
    assert first == third == alike
    assert second == fourth
    assert len({tuple(prompt) for prompt in (first, second, other)}) == 3


async def test_an_experiment_that_runs_again_begins_with_other_prefixes() -> None:
    prompts: dict[str, list[int]] = {}

    async def script(call: Call) -> None:
        prompts[call.headers["x-request-id"]] = call.body["prompt"][:6]
        await call.answer(["a"])

    async with serving(script) as server:
        caller = Caller(Endpoint.parse(server.url), Keyring("key"), "m", "s")
        cold, warm = Shape("cold", 9, 1, prefix_tokens=6), Shape("warm", 9, 1, prefix_tokens=6, prefix_of="cold")
        for _ in range(2):
            caller.mark()
            await caller.start(Calls((cold, warm), 4))
        caller.mark()
        await caller.start(Calls((warm,)))
        await caller.close()
    told = [prompts[name] for name in sorted(prompts, key=lambda name: int(name.split("-")[1]))]
    assert told[0] == told[1] == told[2] == told[3]
    assert told[4] == told[5] == told[6] == told[7]
    assert told[0] != told[4], "nothing of it is in a cache yet"
    assert told[8] == told[4], "another experiment may go on with what this one left"


async def test_only_a_stream_whose_way_is_wanted_asks_for_it() -> None:
    asked: dict[str, object] = {}

    async def script(call: Call) -> None:
        asked[call.headers["x-request-id"]] = call.body.get("stream_options")
        await call.answer(["a"])

    async with serving(script) as server:
        caller = Caller(Endpoint.parse(server.url), Keyring("key"), "m", "s")
        await caller.start(Calls((Shape("x", hops=True), Shape("y"), Shape("z", stream=False, hops=True)), 3))
        await caller.close()
    assert asked == {
        "s-1-x": {"include_usage": True, "include_hops": True},
        "s-2-y": {"include_usage": True},
        "s-3-z": None,
    }


async def test_a_caller_goes_on_at_another_address() -> None:
    heard: list[str] = []

    async def first(call: Call) -> None:
        heard.append("first")
        await call.answer(["a"])

    async def second(call: Call) -> None:
        heard.append("second")
        await call.answer(["a"])

    async with serving(first) as one, serving(second) as other:
        caller = Caller(Endpoint.parse(one.url), Keyring("key"), "m", "s")
        await caller.start(Calls((Shape("x"),)))
        caller.move(Endpoint.parse(other.url))
        await caller.start(Calls((Shape("x"),)))
        seen = [made.seen(None) for made in caller.ended]
        await caller.close()
    assert heard == ["first", "second"]
    assert [call.request_id for call in seen] == ["s-1-x", "s-2-x"]


async def test_a_client_leaves_after_so_many_pieces_and_that_is_no_failure() -> None:
    left = asyncio.Event()

    async def script(call: Call) -> None:
        await call.open_stream()
        try:
            while True:
                await call.text("on ")
                await asyncio.sleep(0)
        except ConnectionError:
            left.set()

    async with serving(script) as server:
        caller = Caller(Endpoint.parse(server.url), Keyring("key"), "m", "s")
        await caller.start(Calls((Shape("x", leave_after=3),)))
        await left.wait()
        (made,) = caller.ended
        await caller.close()
    stages = (Stage("queue", 0.0, 0.1), Stage("prefill", 0.1, 0.5))
    seen = made.seen(RequestView("r", "g", "m", RequestPhase.CANCELLED, "w-1", stages=stages))
    assert (seen.left, seen.ok, seen.error, seen.worker_id) == (True, False, "", "w-1")
    assert seen.stages_s == {"queue": 0.1, "prefill": 0.5}
    assert seen.output_tokens >= 3


async def test_calls_in_the_background_run_until_their_clients_leave() -> None:
    both = asyncio.Event()
    came = 0

    async def script(call: Call) -> None:
        nonlocal came
        came += 1
        if came == 2:
            both.set()
        await call.open_stream()
        await asyncio.Event().wait()

    async with serving(script) as server:
        caller = Caller(Endpoint.parse(server.url), Keyring("key"), "m", "s")
        going = caller.start(Calls((Shape("x"),), count=5, at_once=2))
        await both.wait()
        await caller.leave()
        assert going.done()
        assert [made.seen(None).left for made in caller.ended] == [True, True]
        caller.mark()
        assert not caller.ended
        await caller.close()


async def test_where_nobody_answers_the_call_failed() -> None:
    caller = Caller(Endpoint.parse("http://127.0.0.1:1"), Keyring("key"), "m", "s")
    await caller.start(Calls((Shape("x"),)))
    (made,) = caller.ended
    assert (made.seen(None).ok, made.seen(None).error) == (False, "unreachable")
    await caller.close()


async def test_a_text_is_asked_as_a_chat_or_a_completion_and_answered_alike_for_all() -> None:
    calls: list[Call] = []

    async def script(call: Call) -> None:
        calls.append(call)
        await call.answer(["a", "b"])

    chat = Shape("x", api="chat", text="hi", output_tokens=9, ignore_eos=False)
    plain = Shape("y", text="hi", model="other", stream=False, key="none", min_tokens=4)
    async with serving(script) as server:
        caller = Caller(Endpoint.parse(server.url), Keyring("key"), "m", "s")
        await caller.start(Calls((chat, plain), 2))
        one, two = caller.ended
        await caller.close()
    assert [call.path for call in calls] == ["/v1/chat/completions", "/v1/completions"]
    assert calls[0].body == {
        "model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 9, "stream": True,
        "stream_options": {"include_usage": True}, "temperature": 0,
    }  # fmt: skip
    assert (calls[1].body["model"], calls[1].body["prompt"], calls[1].body["ignore_eos"]) == ("other", "hi", True)
    assert calls[1].body["min_tokens"] == 4
    assert calls[0].headers["authorization"] == "Bearer key"
    assert "authorization" not in calls[1].headers
    # The role, two pieces, the end, the usage, and [DONE].
    assert (one.seen(None).events, two.seen(None).events) == (6, 0)
    assert (one.seen(None).finish, one.seen(None).status) == ("stop", 200)
    assert caller.latest == {"x": one, "y": two}


async def test_what_the_gateway_answers_by_itself_no_router_tells_of() -> None:
    async def script(call: Call) -> None:
        await call.error(429, "rate_limit_exceeded")

    async with serving(script) as server:
        caller = Caller(Endpoint.parse(server.url), Keyring("key"), "m", "s")
        await caller.start(Calls((Shape("x"),)))
        (made,) = caller.ended
        await caller.close()
    assert not made.told_of
    assert (made.seen(None).status, made.seen(None).error) == (429, "rate_limit_exceeded")


@pytest.mark.parametrize("background", [False, True])
async def test_what_nobody_foresaw_is_no_call_that_was_not_heard(*, background: bool) -> None:
    """A key that no step made: the call never leaves."""
    caller = Caller(Endpoint.parse("http://127.0.0.1:1"), Keyring("key"), "m", "s")
    await caller.start(Calls((Shape("x", key="forgotten"),), 2, background=background))
    await caller.all_over()
    with pytest.raises(InternalError, match="the call 'x' could not be made: KeyError: 'forgotten'") as told:
        caller.check()
    assert isinstance(told.value.__cause__, KeyError)
    caller.check()
    await caller.close()


async def test_nor_is_what_breaks_before_a_call_begins() -> None:
    caller = Caller(Endpoint.parse("http://127.0.0.1:1"), Keyring("key"), "m", "s")
    await caller.start(Calls((Shape("x", prompt_tokens=4, prefixes=0),)))
    with pytest.raises(InternalError, match="the call 'x' could not be made: ZeroDivisionError"):
        caller.check()
    assert not caller.ended
    await caller.close()
