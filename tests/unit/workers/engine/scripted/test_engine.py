"""What only the scripted engine does; what every engine does is in tests/contract."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from control_plane.contracts.errors import DropReason, InferDeckError, InvalidRequest, SettingsError, Unavailable
from control_plane.contracts.worker import Delta, FinishReason, Generate, Sampling
from tests.scripted_worker import scripted_spec
from tests.worker_client import TOKENIZER, Reply, script
from workers.engine.base import EngineDead
from workers.engine.scripted import ScriptedEngine

Submit = Callable[..., Reply]


class Bench:
    """An engine and the replies of everything that was submitted to it, in order; ``steps`` is every sink call."""

    def __init__(self, engine: ScriptedEngine) -> None:
        self.engine = engine
        self.replies: list[Reply] = []
        self.steps: list[list[Delta]] = []

    def sink(self, deltas: Sequence[Delta]) -> None:
        self.steps.append(list(deltas))
        for delta in deltas:
            self.replies[delta.call].take(delta)

    def submit(self, prompt: str | list[int] = "hello", **fields: Any) -> Reply:
        own = {name: fields.pop(name) for name in ("priority", "cache_salt", "stream") if name in fields}
        ids = TOKENIZER.encode(prompt) if isinstance(prompt, str) else prompt
        number = len(self.replies)
        self.replies.append(Reply())
        sampling = Sampling(**{"max_tokens": 16, **fields})
        self.engine.submit(Generate(number, f"request-{number}", ids, sampling, **own), self.sink)
        return self.replies[number]


@asynccontextmanager
async def bench(tmp_path: Path, **arguments: Any) -> AsyncIterator[Bench]:
    engine = ScriptedEngine(scripted_spec(tmp_path, **{"delay_s": 0.0, "exit_process": False, **arguments}))
    await engine.start()
    try:
        yield Bench(engine)
    finally:
        await engine.stop()


async def test_a_script_gives_exactly_its_bytes_in_its_steps(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        reply = await b.submit(script(bytes=["f09f", "9880ed95", "9c"])).end()
        assert [delta.text for delta in reply.deltas] == ["", "😀", "한"]
        assert [len(delta.token_ids) for delta in reply.deltas] == [2, 4, 1]


async def test_a_script_gives_exactly_its_number_of_tokens(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        reply = await b.submit(script(tokens=5, text="ab"), max_tokens=99).end()
        assert reply.text() == "ababa"
        assert reply.finish().output_tokens == 5
        words = await b.submit(script(tokens=40), max_tokens=99).end()
        assert len(words.token_ids()) == 40


@pytest.mark.parametrize(("finish", "reason"), [("stop", FinishReason.STOP), ("length", FinishReason.LENGTH)])
async def test_a_script_says_how_it_ends(tmp_path: Path, finish: str, reason: FinishReason) -> None:
    async with bench(tmp_path) as b:
        reply = await b.submit(script(text="a", finish=finish)).end()
        assert reply.finish().reason is reason


async def test_a_script_can_fail_and_refuse(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        reply = await b.submit(script(tokens=2, finish="error")).end()
        assert reply.error_code == DropReason.INTERNAL_ERROR
        assert len(reply.token_ids()) == 2
        with pytest.raises(Unavailable) as caught:
            b.submit(script(refuse="overloaded"))
        assert caught.value.reason is DropReason.OVERLOADED
        assert b.engine.load().running == 0


async def test_dangling_bytes_are_left_out_in_both_modes(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        prompt = script(bytes=["61", "f09f98"])
        streamed, plain = await b.submit(prompt).end(), await b.submit(prompt, stream=False).end()
        assert streamed.text() == plain.text() == "a"
        assert streamed.token_ids() == plain.token_ids()


async def test_text_that_was_held_for_a_stop_comes_out_at_the_length(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        prompt = script(pieces=["x", "DEF", "G"])
        reply = await b.submit(prompt, stop=["DEFGHIJ"], max_tokens=4).end()
        assert reply.finish().reason is FinishReason.LENGTH
        assert reply.text() == "xDEF"
        assert (await b.submit(prompt, stop=["DEFGHIJ"]).end()).text() == "xDEFG"


async def test_a_stop_string_counts_the_tokens_that_made_it(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        reply = await b.submit(script(pieces=["ab", "cd", "ef"]), stop=["bc"]).end()
        assert reply.text() == "a"
        assert (reply.finish().stop_text, reply.finish().output_tokens) == ("bc", 3)


async def test_a_prompt_that_ends_inside_a_character_leaks_nothing(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        prompt = TOKENIZER.encode(script(bytes=["9c", "61"])) + TOKENIZER.encode_bytes("한".encode()[:2])
        assert (await b.submit(prompt).end()).text() == "한a"


async def test_all_that_run_share_a_step(tmp_path: Path) -> None:
    async with bench(tmp_path, delay_s=0.01) as b:
        replies = [b.submit(f"{n}", max_tokens=6, ignore_eos=True) for n in range(4)]
        await asyncio.gather(*(reply.end() for reply in replies))
        assert max(len(step) for step in b.steps) == 4
        assert len(b.steps) < 24


async def test_seats_are_bounded_and_given_by_priority_then_arrival(tmp_path: Path) -> None:
    async with bench(tmp_path, max_num_seqs=1, delay_s=0.001) as b:
        running = b.submit("first", max_tokens=50, ignore_eos=True)
        low, normal, high = b.submit("low", priority=5), b.submit("normal"), b.submit("high", priority=-5)
        later = b.submit("later")
        assert (b.engine.load().running, b.engine.load().waiting) == (1, 4)
        await asyncio.gather(*(reply.end() for reply in (running, low, normal, high, later)))
        order = [delta.call for step in b.steps for delta in step if delta.done is not None]
        assert order == [0, 3, 2, 4, 1]


async def test_waiting_calls_can_be_aborted(tmp_path: Path) -> None:
    async with bench(tmp_path, max_num_seqs=1, delay_s=0.001) as b:
        first, second = b.submit("a", max_tokens=20, ignore_eos=True), b.submit("b")
        b.engine.abort(1)
        assert second.finish().reason is FinishReason.ABORT
        assert b.engine.load().waiting == 0
        await first.end()


async def test_no_blocks_left_preempts_the_least_important_which_still_ends_right(tmp_path: Path) -> None:
    async with bench(tmp_path, total_blocks=8, block_size=4, max_context=32) as b:
        alone = (await b.submit([1, 2, 3], max_tokens=24, ignore_eos=True).end()).token_ids()
        urgent = b.submit([1, 2, 3], max_tokens=24, ignore_eos=True, priority=-1)
        other = b.submit([4, 5, 6], max_tokens=24, ignore_eos=True)
        await asyncio.gather(urgent.end(), other.end())
        assert urgent.token_ids() == alone
        assert len(other.token_ids()) == 24
        assert urgent.last.done is not None
        assert other.last.done is not None
        assert urgent.last.done.stages.preemptions == 0
        assert other.last.done.stages.preemptions == b.engine.load().preemptions > 0
        assert b.engine.load().used_blocks == 0


async def test_the_context_bounds_an_answer(tmp_path: Path) -> None:
    async with bench(tmp_path, total_blocks=8, block_size=4, max_context=32) as b:
        reply = await b.submit([1] * 30, max_tokens=100, ignore_eos=True).end()
        assert reply.finish().reason is FinishReason.LENGTH
        assert len(reply.token_ids()) == 2


async def test_a_stall_pauses_one_request_only(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        stalled = b.submit(script(tokens=4, stall_s=30, stall_after=2))
        await b.submit("other").end()
        assert len(stalled.token_ids()) == 2
        assert not stalled.ended.is_set()


async def test_a_scripted_death_ends_every_call_and_is_told(tmp_path: Path) -> None:
    async with bench(tmp_path, delay_s=0.001) as b:
        other = b.submit("other", max_tokens=4000, ignore_eos=True)
        fatal = b.submit(script(tokens=9, engine_dies_after=3))
        async with asyncio.timeout(10):
            cause = await b.engine.dead()
        assert "script" in cause
        assert fatal.error_code == other.error_code == DropReason.ENGINE_DEAD
        assert len(fatal.token_ids()) == 3
        with pytest.raises(InferDeckError) as caught:
            b.submit("more")
        assert caught.value.reason is DropReason.ENGINE_DEAD


async def test_the_same_prompt_and_seed_say_the_same(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        first, again = await b.submit("q", seed=7).end(), await b.submit("q", seed=7).end()
        other = await b.submit("q", seed=8).end()
        assert first.token_ids() == again.token_ids() != other.token_ids()


async def test_choices_differ_and_end_together(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        reply = await b.submit("q", n=3).end()
        assert len({reply.text(choice) for choice in range(3)}) == 3
        assert reply.last.done is not None
        assert reply.last.done.output_tokens == sum(len(reply.token_ids(choice)) for choice in range(3))


async def test_a_trace_tells_when_things_happened(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    async with bench(tmp_path, trace_path=str(trace)) as b:
        await b.submit("a").end()
        b.submit(script(tokens=9, delay_s=30, mark="mine"))
        b.engine.abort(1)
    lines = [json.loads(line) for line in trace.read_text().splitlines()]
    assert [(line["event"], line["request_id"]) for line in lines] == [
        ("submit", "request-0"),
        ("first", "request-0"),
        ("end", "request-0"),
        ("submit", "request-1"),
        ("abort", "request-1"),
    ]
    assert [line["mark"] for line in lines] == ["", "", "", "mine", "mine"]
    assert [line["mono"] for line in lines] == sorted(line["mono"] for line in lines)


async def test_a_start_can_fail(tmp_path: Path) -> None:
    with pytest.raises(EngineDead, match="no room"):
        await ScriptedEngine(scripted_spec(tmp_path, fail_start="no room")).start()


@pytest.mark.parametrize(("name", "value"), [("speed", 1), ("delay_s", "fast"), ("tokens", 1.5)])
def test_wrong_arguments_are_named(tmp_path: Path, name: str, value: object) -> None:
    with pytest.raises(SettingsError) as caught:
        ScriptedEngine(scripted_spec(tmp_path, **{name: value}))
    assert caught.value.param == f"engine_args.{name}"


async def test_a_prompt_with_unknown_tokens_is_refused(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        with pytest.raises(InvalidRequest):
            b.submit([10**6])
