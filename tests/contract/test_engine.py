"""What every engine must do (``workers/engine/base.py``), whichever it is.

Nothing here knows what a model will say: texts are compared with what the same engine says to the same greedy call.
"""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import json
import math
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tokenizers import Tokenizer

from control_plane.contracts.errors import InferDeckError
from control_plane.contracts.worker import Delta, FinishReason, Generate, ModelInfo, Sampling
from tests.contract.engines import engine_spec
from tests.worker_client import Reply
from workers.engine.base import Engine, EngineLoad
from workers.engines import make_engine
from workers.lifecycle import prove

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

TIMEOUT_S = 120.0
PROMPT = "The capital of France is Paris. The capital of Italy is Rome. The capital of Spain is"


class Subject:
    """The engine under test, and what came of every call."""

    def __init__(self, engine: Engine, model: ModelInfo) -> None:
        self.engine = engine
        self.model = model
        files = {file.name: file.data for file in engine.tokenizer_files()}
        self.tokenizer = Tokenizer.from_str(files["tokenizer.json"].decode())
        self._numbers = itertools.count(1000)
        self.replies: dict[int, Reply] = {}
        self.steps: list[list[Delta]] = []

    def sink(self, deltas: Sequence[Delta]) -> None:
        self.steps.append(list(deltas))
        for delta in deltas:
            self.replies[delta.call].take(delta)

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def submit(self, prompt: str | list[int] = PROMPT, **fields: Any) -> tuple[int, Reply]:
        """Greedy and of a fixed length unless told otherwise."""
        own = {name: fields.pop(name) for name in ("priority", "cache_salt", "stream") if name in fields}
        number = next(self._numbers)
        reply = self.replies[number] = Reply()
        ids = self.encode(prompt) if isinstance(prompt, str) else prompt
        sampling = Sampling(**{"max_tokens": 12, "temperature": 0.0, "ignore_eos": True, **fields})
        call = Generate(number, f"contract-{number}", ids, sampling, arrival_unix=time.time(), **own)
        try:
            self.engine.submit(call, self.sink)
        except InferDeckError:
            del self.replies[number]
            raise
        return number, reply

    async def ask(self, prompt: str | list[int] = PROMPT, **fields: Any) -> Reply:
        return await self.submit(prompt, **fields)[1].end(TIMEOUT_S)

    async def until(self, accept: Callable[[EngineLoad], bool]) -> EngineLoad:
        async with asyncio.timeout(TIMEOUT_S):
            while not accept(load := self.engine.load()):  # noqa: ASYNC110 - counters have no event
                await asyncio.sleep(0.01)
        return load

    async def until_idle(self) -> EngineLoad:
        return await self.until(lambda load: load.running == load.waiting == load.used_blocks == 0)


@pytest_asyncio.fixture(
    scope="module",
    loop_scope="module",
    params=[
        "scripted",
        "sim",
        "sim-async",
        pytest.param("vllm", marks=[pytest.mark.real_vllm, pytest.mark.forks]),
    ],
)
async def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Subject]:
    name: str = request.param
    if name == "vllm" and importlib.util.find_spec("vllm") is None:
        pytest.skip("vLLM is not installed")
    directory: Path = tmp_path_factory.mktemp(name)
    engine = make_engine(engine_spec(name, directory))
    try:
        model = await engine.start()
        yield Subject(engine, model)
    finally:
        await engine.stop()
        assert engine.pids() == ()


async def test_a_started_engine_says_what_it_is(subject: Subject) -> None:
    model, load = subject.model, subject.engine.load()
    assert model.name
    assert min(model.max_context, model.vocab_size, model.block_size, model.total_blocks) > 0
    assert model.max_num_seqs == 4
    assert load.total_blocks == model.total_blocks
    assert subject.engine.name
    assert subject.engine.version
    assert subject.engine.device


async def test_it_can_be_proved_by_a_real_token(subject: Subject) -> None:
    before = subject.engine.load()
    await prove(subject.engine)
    await subject.until(lambda load: load.generated_tokens > before.generated_tokens)


async def test_an_answer_is_held_to_its_response_format(subject: Subject) -> None:
    reply = await subject.ask(json_schema='{"type": "string", "enum": ["Paris"]}', max_tokens=30, ignore_eos=False)
    assert json.loads(reply.text()) == "Paris"
    assert reply.finish().reason is FinishReason.STOP


async def test_a_call_ends_with_one_done_that_counts_right(subject: Subject) -> None:
    reply = await subject.ask(max_tokens=12)
    assert [delta for delta in reply.deltas if delta.done is not None] == [reply.last]
    assert reply.last.done is not None
    assert reply.last.done.prompt_tokens == len(subject.encode(PROMPT))
    assert reply.last.done.output_tokens == reply.finish().output_tokens == len(reply.token_ids()) == 12
    assert reply.finish().reason is FinishReason.LENGTH


async def test_one_token_is_one_token(subject: Subject) -> None:
    reply = await subject.ask(max_tokens=1)
    assert len(reply.token_ids()) == 1
    assert reply.finish().reason is FinishReason.LENGTH


async def test_a_stream_comes_in_pieces_and_a_plain_call_in_one(subject: Subject) -> None:
    stream, plain = await subject.ask(), await subject.ask(stream=False)
    assert len(stream.deltas) > 1
    assert len(plain.deltas) == 1
    assert stream.text() == plain.text()
    assert stream.token_ids() == plain.token_ids()
    assert stream.finish() == plain.finish()


async def test_text_is_what_the_tokens_say(subject: Subject) -> None:
    reply = await subject.ask(max_tokens=24)
    prompt = subject.encode(PROMPT)
    decode = subject.tokenizer.decode
    assert reply.text() == decode(prompt + reply.token_ids())[len(decode(prompt)) :]


async def test_the_same_greedy_call_says_the_same(subject: Subject) -> None:
    first, second = await subject.ask(), await subject.ask()
    assert first.token_ids() == second.token_ids()


async def test_the_same_seed_says_the_same(subject: Subject) -> None:
    first, again = [await subject.ask(temperature=1.0, seed=11) for _ in range(2)]
    others = [await subject.ask(temperature=1.0, seed=seed) for seed in (12, 13, 14)]
    assert first.token_ids() == again.token_ids()
    assert any(other.token_ids() != first.token_ids() for other in others)


@pytest.mark.parametrize("stream", [True, False])
async def test_choices_end_each_and_done_is_last(subject: Subject, stream: bool) -> None:
    reply = await subject.ask(n=3, temperature=1.0, seed=5, max_tokens=6, stream=stream)
    finishes = [reply.finish(choice) for choice in range(3)]
    assert [finish.output_tokens for finish in finishes] == [6, 6, 6]
    assert [len(reply.token_ids(choice)) for choice in range(3)] == [6, 6, 6]
    assert reply.last.done is not None
    assert reply.last.done.output_tokens == 18
    assert reply.last.done.prompt_tokens == len(subject.encode(PROMPT))


@pytest.mark.parametrize("stream", [True, False])
async def test_a_stop_string_cuts_before_itself(subject: Subject, stream: bool) -> None:
    text = (await subject.ask(max_tokens=24)).text()
    stop = text[len(text) // 2 : len(text) // 2 + 4]
    reply = await subject.ask(max_tokens=24, stop=[stop], stream=stream)
    assert reply.text() == text[: text.index(stop)]
    assert (reply.finish().reason, reply.finish().stop_text) == (FinishReason.STOP, stop)
    assert reply.finish().output_tokens == len(reply.token_ids()) <= 24


async def test_no_piece_of_a_stop_string_goes_out_early(subject: Subject) -> None:
    text = (await subject.ask(max_tokens=24)).text()
    stop = text[4:16]
    reply = await subject.ask(max_tokens=24, stop=[stop])
    assert reply.text() == text[: text.index(stop)]


async def test_a_stop_string_that_does_not_come_takes_nothing_away(subject: Subject) -> None:
    text = (await subject.ask(max_tokens=12)).text()
    reply = await subject.ask(max_tokens=12, stop=[text[-3:] + "\u2603"])
    assert reply.text() == text
    assert reply.finish().reason is FinishReason.LENGTH


async def test_a_stop_token_ends_and_is_named(subject: Subject) -> None:
    ids = (await subject.ask(max_tokens=12)).token_ids()
    stop = ids[5]
    reply = await subject.ask(max_tokens=12, stop_token_ids=[stop])
    assert reply.token_ids() == ids[: ids.index(stop) + 1]
    assert (reply.finish().reason, reply.finish().stop_token_id) == (FinishReason.STOP, stop)


@pytest.mark.parametrize("stream", [True, False])
async def test_log_probabilities_come_one_per_token(subject: Subject, stream: bool) -> None:
    reply = await subject.ask(max_tokens=5, logprobs=2, stream=stream)
    entries = [entry for delta in reply.deltas for entry in delta.logprobs]
    assert [entry.token_id for entry in entries] == reply.token_ids()
    assert all(math.isfinite(entry.logprob) and entry.logprob <= 0 for entry in entries)
    assert all(len(entry.top) == 2 for entry in entries)
    assert b"".join(entry.token for entry in entries).decode() == reply.text()
    for delta in reply.deltas:
        assert len(delta.logprobs) == len(delta.token_ids)


async def test_the_chosen_token_alone_has_no_alternatives(subject: Subject) -> None:
    reply = await subject.ask(max_tokens=2, logprobs=0)
    entries = [entry for delta in reply.deltas for entry in delta.logprobs]
    assert [len(entry.top) for entry in entries] == [0, 0]


async def test_a_long_prompt_is_found_again_in_the_cache(subject: Subject) -> None:
    prompt = [token for n in range(40) for token in subject.encode(f"Fact {n} of the list. ")]
    cold = await subject.ask(prompt, max_tokens=1, cache_salt="cold")
    warm = await subject.ask(prompt, max_tokens=1, cache_salt="cold")
    other = await subject.ask(prompt, max_tokens=1, cache_salt="other")
    cached = [reply.last.done.cached_tokens for reply in (cold, warm, other) if reply.last.done is not None]
    assert cached[0] == cached[2] == 0
    assert len(prompt) - 2 * subject.model.block_size <= cached[1] < len(prompt)


async def test_an_abort_in_decode_frees_everything(subject: Subject) -> None:
    await subject.until_idle()
    number, reply = subject.submit(max_tokens=400)
    async with asyncio.timeout(TIMEOUT_S):
        await reply.begun.wait()
    assert subject.engine.load().running == 1
    subject.engine.abort(number)
    await reply.end(TIMEOUT_S)
    assert reply.finish().reason is FinishReason.ABORT
    assert reply.last.done is not None
    assert 1 <= reply.last.done.output_tokens < 400
    await subject.until_idle()
    subject.engine.abort(number)


@pytest.mark.parametrize("stream", [True, False])
async def test_an_abort_before_the_first_token_frees_everything(subject: Subject, stream: bool) -> None:
    number, reply = subject.submit([7] * 300, max_tokens=100, stream=stream)
    subject.engine.abort(number)
    await reply.end(TIMEOUT_S)
    assert reply.finish().reason is FinishReason.ABORT
    await subject.until_idle()


async def test_an_abort_of_several_choices_ends_each(subject: Subject) -> None:
    number, reply = subject.submit(n=2, temperature=1.0, max_tokens=400)
    async with asyncio.timeout(TIMEOUT_S):
        await reply.begun.wait()
    subject.engine.abort(number)
    await reply.end(TIMEOUT_S)
    assert {reply.finish(choice).reason for choice in range(2)} == {FinishReason.ABORT}
    await subject.until_idle()


async def test_aborting_what_is_not_there_is_nothing(subject: Subject) -> None:
    subject.engine.abort(999_999)


async def test_many_at_once_all_end_and_leave_nothing(subject: Subject) -> None:
    before = subject.engine.load()
    replies = [subject.submit(f"{n} and {n} is", max_tokens=8)[1] for n in range(12)]
    await subject.until(lambda load: load.running > 1)
    await asyncio.gather(*(reply.end(TIMEOUT_S) for reply in replies))
    assert [len(reply.token_ids()) for reply in replies] == [8] * 12
    after = await subject.until_idle()
    assert after.generated_tokens - before.generated_tokens == 96
    assert after.prompt_tokens > before.prompt_tokens
    assert after.steps > before.steps


async def test_one_step_of_several_calls_is_one_sink_call(subject: Subject) -> None:
    start = len(subject.steps)
    replies = [subject.submit(f"{n} and", max_tokens=16)[1] for n in range(4)]
    await asyncio.gather(*(reply.end(TIMEOUT_S) for reply in replies))
    assert max(len(step) for step in subject.steps[start:]) > 1


async def test_stages_are_durations_that_fit_in_the_time_it_took(subject: Subject) -> None:
    start = time.monotonic()
    reply = await subject.ask(max_tokens=8)
    took = time.monotonic() - start
    assert reply.last.done is not None
    stages = reply.last.done.stages
    assert min(stages.queued_s, stages.prefill_s, stages.decode_s) >= 0
    assert stages.prefill_s + stages.decode_s > 0
    assert stages.queued_s + stages.prefill_s + stages.decode_s <= took + 0.05
    assert abs(stages.received_unix - time.time()) < took + 5


async def test_an_answer_ends_where_the_context_ends(subject: Subject) -> None:
    limit = subject.model.max_context
    reply = await subject.ask([7] * (limit - 3), max_tokens=50)
    assert reply.finish().reason is FinishReason.LENGTH
    assert len(reply.token_ids()) == 3


async def test_tokenizer_files_have_plain_names_and_a_template(subject: Subject) -> None:
    files = {file.name: file.data for file in subject.engine.tokenizer_files()}
    assert all("/" not in name and data for name, data in files.items())
    assert b"chat_template" in files["tokenizer_config.json"] or "chat_template.jinja" in files
