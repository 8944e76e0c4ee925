"""What the real engine says, and how it is counted."""

from __future__ import annotations

import asyncio
import json
import math
import random
import re
from typing import Any

import pytest

from control_plane.contracts.errors import DropReason, InvalidRequest
from control_plane.contracts.worker import FinishReason
from tests.real_vllm.asker import TIMEOUT_S, Asker
from tests.worker_client import Reply

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.forks]

FRANCE = "The capital of France is"
CHAT = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"


async def test_it_knows_the_capital_of_france(asker: Asker) -> None:
    reply = await asker.ask(FRANCE, max_tokens=4)
    assert reply.text().startswith(" Paris")


async def test_a_chat_ends_by_itself_and_control_tokens_are_no_text(asker: Asker) -> None:
    reply = await asker.ask(CHAT.format("Say the word yes and nothing else."), max_tokens=100)
    assert reply.finish().reason is FinishReason.STOP
    assert "<|" not in reply.text()
    assert reply.token_ids()[-1] == asker.tokenizer.token_to_id("<|im_end|>")
    assert reply.finish().stop_token_id is None


@pytest.mark.parametrize("stream", [True, False])
async def test_usage_is_the_tokenizers_own_count(asker: Asker, stream: bool) -> None:
    prompt = CHAT.format("Count from one to twenty in words.")
    reply = await asker.ask(prompt, max_tokens=40, stream=stream)
    done = reply.last.done
    assert done is not None
    assert done.prompt_tokens == len(asker.encode(prompt))
    assert done.output_tokens == len(reply.token_ids()) == reply.finish().output_tokens
    assert asker.tokenizer.decode(reply.token_ids()) == reply.text()


async def test_thirty_two_at_once_say_what_each_says_alone(asker: Asker) -> None:
    prompts = [f"{number} plus {number} is" for number in range(32)]
    alone = [(await asker.ask(prompt, max_tokens=1)).token_ids() for prompt in prompts[:4]]
    before = asker.engine.load()
    replies = [asker.submit(prompt, max_tokens=24, ignore_eos=True)[1] for prompt in prompts]
    await asker.until(lambda load: load.running == 32)
    await asyncio.gather(*(reply.end(TIMEOUT_S) for reply in replies))
    assert [len(reply.token_ids()) for reply in replies] == [24] * 32
    assert [reply.token_ids()[:1] for reply in replies[:4]] == alone
    after = await asker.until_idle()
    assert after.generated_tokens - before.generated_tokens == 32 * 24
    assert after.prompt_tokens - before.prompt_tokens == sum(len(asker.encode(prompt)) for prompt in prompts)


async def test_one_step_is_one_sink_call(asker: Asker) -> None:
    start, steps = len(asker.steps), asker.engine.load().steps
    replies = [asker.submit(f"{number} and", max_tokens=20, ignore_eos=True)[1] for number in range(16)]
    await asyncio.gather(*(reply.end(TIMEOUT_S) for reply in replies))
    assert len(asker.steps) - start <= asker.engine.load().steps - steps
    assert max(len(step) for step in asker.steps[start:]) == 16


@pytest.mark.parametrize("text", ["😀🎉 👩‍👩‍👧 ñéü 😀", "日本語 한국어 中国 日本"])
async def test_split_characters_come_whole(asker: Asker, text: str) -> None:
    """S01, on real vLLM. A grammar leaves no choice: what the model says by itself depends on the machine."""
    stream = await asker.ask("Say it: ", max_tokens=120, regex=text)
    plain = await asker.ask("Say it: ", max_tokens=120, regex=text, stream=False)
    assert stream.text() == plain.text() == text
    assert any(delta.token_ids and not delta.text and delta.finish is None for delta in stream.deltas)
    for delta in stream.deltas:
        delta.text.encode()


@pytest.mark.parametrize("held_back", [1, 2, 3])
async def test_a_prompt_that_ends_inside_a_character_stays_out_of_the_answer(asker: Asker, held_back: int) -> None:
    """S01, on real vLLM."""
    ids = asker.encode("The secret word is marmalade 😀 한")[:-held_back]
    reply = await asker.ask(ids, max_tokens=8)
    assert "marmalade" not in reply.deltas[0].text
    assert "secret" not in reply.text()


async def test_a_prompt_that_ends_in_a_replacement_character_stays_out_too(asker: Asker) -> None:
    """Nothing of the prompt: the text is that of the tokens. The model may go on with such characters of its own."""
    reply = await asker.ask("The secret word is marmalade \ufffd\ufffd", max_tokens=8)
    whole = asker.tokenizer.decode(reply.token_ids(), skip_special_tokens=True)
    assert whole.startswith(reply.text())
    assert set(whole.removeprefix(reply.text())) <= {"\ufffd"}  # a character that its last tokens left unfinished


async def test_stop_strings_never_leak(asker: Asker) -> None:
    """S02, on real vLLM."""
    text = (await asker.ask(FRANCE, max_tokens=32, ignore_eos=True)).text()
    for start in range(1, len(text) - 8, 5):
        stop = text[start : start + 7]
        reply = await asker.ask(FRANCE, max_tokens=32, ignore_eos=True, stop=("not this", stop))
        assert reply.text() == text[: text.index(stop)]
        assert (reply.finish().reason, reply.finish().stop_text) == (FinishReason.STOP, stop)
    load = await asker.until_idle()
    assert load.used_blocks == 0


async def test_the_parts_of_log_probabilities_agree(asker: Asker) -> None:
    """N01, on real vLLM."""
    reply = await asker.ask(FRANCE, max_tokens=6, logprobs=5)
    entries = [entry for delta in reply.deltas for entry in delta.logprobs]
    assert b"".join(entry.token for entry in entries).decode() == reply.text()
    for entry in entries:
        values = [other.logprob for other in entry.top]
        assert values == sorted(values, reverse=True)
        assert sum(math.exp(value) for value in values) <= 1.0001
        # Greedy: the chosen token is the most likely one.
        assert (entry.rank, entry.token_id, entry.logprob) == (1, entry.top[0].token_id, entry.top[0].logprob)


async def test_a_json_schema_is_kept_to(asker: Asker) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "maximum": 99}},
        "required": ["name", "age"],
        "additionalProperties": False,
    }
    prompt = CHAT.format("Give me a person as JSON.")
    reply = await asker.ask(prompt, max_tokens=100, json_schema=json.dumps(schema))
    person = json.loads(reply.text())
    assert person.keys() == {"name", "age"}
    assert isinstance(person["age"], int)


async def test_a_regex_is_kept_to(asker: Asker) -> None:
    reply = await asker.ask("My phone number is", max_tokens=30, regex="[0-9]{3}-[0-9]{4}")
    assert re.fullmatch("[0-9]{3}-[0-9]{4}", reply.text())


async def test_json_of_any_shape(asker: Asker) -> None:
    reply = await asker.ask(CHAT.format("Answer with a JSON object."), max_tokens=8, json_object=True)
    assert reply.text().lstrip().startswith("{")


@pytest.mark.parametrize("fields", [{"regex": "(("}, {"json_schema": '{"type": "nonsense"}'}])
async def test_a_grammar_that_is_none_is_the_callers_fault(asker: Asker, fields: dict[str, Any]) -> None:
    reply = await asker.ask(FRANCE, max_tokens=4, **fields)
    assert reply.error_code == DropReason.INVALID_REQUEST
    assert await asker.until_idle()


@pytest.mark.parametrize(
    "schema",
    [
        '{"$ref": "#"}',
        '{"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}',
        r'{"type": "string", "pattern": "\\"}',
        '{"type": "object", "patternProperties": {"(": {}}}',
    ],
)
async def test_a_schema_that_does_not_compile_is_the_callers_fault(asker: Asker, schema: str) -> None:
    reply = asker.submit("Hello", max_tokens=4, json_schema=schema, n=2)[1]
    await reply.end(TIMEOUT_S)
    error = reply.last.error
    assert error is not None
    assert (error.code, error.param) == (DropReason.INVALID_REQUEST, "response_format")
    assert (await asker.ask("Hello", max_tokens=2)).finish().output_tokens == 2


@pytest.mark.parametrize("pattern", ["^[ab]{3}$", "^(a|b)*a(a|b){12}$"])
async def test_no_schema_is_compiled_to_all_of_its_states(asker: Asker, pattern: str) -> None:
    """What neither xgrammar nor llguidance knows, vLLM leaves to outlines, whose memory grows as the power of a length
    that the caller writes."""
    parts = {"a": {"type": "string", "pattern": pattern}, "n": {"type": "integer", "multipleOf": 2}}
    schema = {"type": "object", "properties": parts, "patternProperties": {"^x": {"type": "string"}}}
    reply = asker.submit("Hello", max_tokens=4, json_schema=json.dumps(schema))[1]
    await reply.end(TIMEOUT_S)
    error = reply.last.error
    assert error is not None
    assert (error.code, error.param) == (DropReason.INVALID_REQUEST, "response_format")
    assert "'patternProperties' cannot be followed" in error.message
    assert (await asker.ask("Hello", max_tokens=2)).finish().output_tokens == 2


async def test_a_structured_call_can_be_aborted_before_it_is_compiled(asker: Asker) -> None:
    number, reply = asker.submit(FRANCE, max_tokens=100, regex="[a-z]{50}")
    asker.engine.abort(number)
    assert (await reply.end()).finish().reason is FinishReason.ABORT
    await asker.until_idle()


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_tokens": 5, "min_tokens": 9}, None),
        ({"temperature": -1.0}, "temperature"),
        ({"top_p": 0.0}, "top_p"),
        ({"logit_bias": {10**9: 1.0}}, "logit_bias"),
        ({"logprobs": 1000}, "logprobs"),
    ],
)
async def test_a_bad_number_is_refused_and_the_engine_stays_well(
    asker: Asker, fields: dict[str, Any], param: str | None
) -> None:
    """A06, on real vLLM."""
    with pytest.raises(InvalidRequest) as caught:
        asker.submit(FRANCE, **fields)
    assert caught.value.param == param
    assert (await asker.ask(FRANCE, max_tokens=2)).text().startswith(" Paris")


async def test_a_prompt_longer_than_the_context_is_told_apart(asker: Asker) -> None:
    with pytest.raises(InvalidRequest) as caught:
        asker.submit([7] * (asker.model.max_context + 1))
    assert caught.value.reason is DropReason.CONTEXT_LENGTH_EXCEEDED
    with pytest.raises(InvalidRequest):
        asker.submit([10**6])
    with pytest.raises(InvalidRequest):
        asker.submit([])


@pytest.mark.parametrize("seed", [0, 2**63 - 1, -(2**63)])
async def test_no_seed_is_too_large(asker: Asker, seed: int) -> None:
    first, again = [await asker.ask(FRANCE, max_tokens=6, n=2, temperature=1.5, seed=seed) for _ in range(2)]
    assert [first.token_ids(choice) for choice in range(2)] == [again.token_ids(choice) for choice in range(2)]


async def test_seeded_calls_whose_prompts_come_in_chunks_say_what_each_says_alone(asker: Asker) -> None:
    story = "The quick brown fox jumps over the lazy dog. " * 30
    prompts = [f"{number}. {story}" for number in range(6)]
    alone = (await asker.ask(prompts[5], max_tokens=4, temperature=1.0, seed=7)).token_ids()
    replies = [
        asker.submit(prompt, max_tokens=4, temperature=1.0, seed=7, cache_salt="together")[1] for prompt in prompts
    ]
    await asyncio.gather(*(reply.end(TIMEOUT_S) for reply in replies))
    assert [len(reply.token_ids()) for reply in replies] == [4] * 6
    assert replies[5].token_ids() == alone


@pytest.mark.parametrize("temperature", [1e-9, 1e-4, 2.0])
async def test_extreme_temperatures_answer(asker: Asker, temperature: float) -> None:
    """A06, on real vLLM."""
    assert (await asker.ask(FRANCE, max_tokens=4, temperature=temperature)).token_ids()


async def test_a_logit_bias_decides(asker: Asker) -> None:
    rome = asker.encode(" Rome")[0]
    assert (await asker.ask(FRANCE, max_tokens=1, logit_bias={rome: 100.0})).token_ids() == [rome]


async def test_the_second_time_the_prompt_is_cached_and_a_salt_isolates(asker: Asker) -> None:
    prompt = [token for number in range(30) for token in asker.encode(f"Line {number} of the contract. ")]
    cached = []
    for salt in ("a", "a", "b", ""):
        done = (await asker.ask(prompt, max_tokens=1, cache_salt=salt)).last.done
        assert done is not None
        cached.append(done.cached_tokens)
    assert cached[0] == cached[2] == cached[3] == 0
    assert cached[1] == (len(prompt) - 1) // asker.model.block_size * asker.model.block_size
    assert asker.engine.load().cached_tokens >= cached[1]


async def test_an_urgent_call_overtakes_those_that_wait(asker: Asker) -> None:
    running = [asker.submit(f"{number} story", max_tokens=48, ignore_eos=True) for number in range(32)]
    await asker.until(lambda load: load.running == 32)
    order: list[str] = []
    waiting = [("late", 5), ("urgent", -5)]
    replies = [(name, asker.submit(f"{name} is", max_tokens=1, priority=priority)[1]) for name, priority in waiting]
    await asker.until(lambda load: load.waiting == 2)

    async def note(name: str, reply: Any) -> None:
        await reply.end(TIMEOUT_S)
        order.append(name)

    asker.engine.abort(running[0][0])
    await asyncio.gather(*(note(name, reply) for name, reply in replies))
    assert order == ["urgent", "late"]
    for number, _ in running:
        asker.engine.abort(number)
    await asker.until_idle()


async def test_an_abort_in_prefill_and_in_decode_frees_every_block(asker: Asker) -> None:
    """C02, on real vLLM."""
    for before_first_token in (True, False):
        number, reply = asker.submit([11] * 900, max_tokens=100, ignore_eos=True)
        if not before_first_token:
            async with asyncio.timeout(TIMEOUT_S):
                await reply.begun.wait()
            assert asker.engine.load().used_blocks > 0
        asker.engine.abort(number)
        assert reply.finish().reason is FinishReason.ABORT
        await asker.until_idle()


async def test_a_sink_that_fails_takes_nobody_with_it(asker: Asker) -> None:
    def broken(deltas: object) -> None:
        raise RuntimeError("the router's stream is gone")

    from control_plane.contracts.worker import Generate, Sampling

    call = Generate(10**6, "broken", asker.encode(FRANCE), Sampling(max_tokens=4, temperature=0.0))
    asker.engine.submit(call, broken)
    assert (await asker.ask(FRANCE, max_tokens=8)).text().startswith(" Paris")
    await asker.until_idle()


def _anything(dice: random.Random, vocab_size: int) -> dict[str, Any]:
    """Sampling parameters at random: each legal, together whatever comes."""
    maybe: dict[str, Any] = {
        "temperature": dice.choice([0.0, 0.7, 1.0, 2.0]),
        "top_p": dice.choice([1e-6, 0.5, 1.0]),
        "top_k": dice.choice([-1, 0, 1, 40, 10**6]),
        "min_p": dice.choice([0.0, 0.3, 1.0]),
        "presence_penalty": dice.choice([-2.0, 2.0]),
        "frequency_penalty": dice.choice([-2.0, 2.0]),
        "repetition_penalty": dice.choice([0.01, 1.3, 50.0]),
        "seed": dice.choice([0, 1, 2**63 - 1]),
        "logprobs": dice.choice([0, 1, 20]),
        "logit_bias": {dice.randrange(vocab_size): dice.choice([-100.0, 100.0]) for _ in range(3)},
        "stop": dice.choice([("e",), ("\n", " the", "\U0001f389")]),
        "stop_token_ids": (dice.randrange(vocab_size),),
        "ignore_eos": True,
        "min_tokens": 1,
        "n": dice.choice([2, 3]),
        "regex": dice.choice(["[a-z]{1,9}", "(yes|no)"]),
        "json_object": True,
    }
    chosen = dice.sample(sorted(maybe), dice.randrange(1, 6))
    if {"regex", "json_object"} <= set(chosen):
        chosen.remove("regex")
    return {name: maybe[name] for name in chosen} | {"max_tokens": dice.choice([1, 4, 12])}


async def test_no_mixture_of_legal_calls_and_aborts_harms_the_engine(asker: Asker) -> None:
    dice = random.Random(20)
    calls: list[tuple[int, Reply]] = []
    for number in range(60):
        prompt = [dice.randrange(asker.model.vocab_size) for _ in range(dice.choice([1, 2, 40, 700]))]
        extra = {"stream": dice.random() < 0.7, "priority": dice.choice([-1, 0, 3]), "cache_salt": "storm"}
        calls.append(asker.submit(prompt, **_anything(dice, asker.model.vocab_size), **extra))
        if number % 4 == 3:
            asker.engine.abort(calls[dice.randrange(len(calls))][0])
            await asyncio.sleep(dice.choice([0.0, 0.05]))
    await asyncio.gather(*(reply.end(TIMEOUT_S) for _, reply in calls))
    assert [reply.error_code for _, reply in calls if reply.error_code] == []
    await asker.until_idle()
    assert (await asker.ask(FRANCE, max_tokens=2)).text().startswith(" Paris")
