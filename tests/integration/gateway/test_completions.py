"""What answers hold beside text, and completions."""

from __future__ import annotations

import math
from typing import Any

import pytest

from control_plane.contracts.worker import Delta, Done, Finish, FinishReason, TokenLogprob
from tests.integration.gateway.rig import Rig, events, joined, say
from tests.unit.gateway.fakes import Submitted
from tests.unit.gateway.tokenizers import reference

# --- log probabilities (N01)


def with_logprobs(submitted: Submitted) -> None:
    sampling, stream = submitted.call.sampling, submitted.call.stream
    assert sampling.logprobs is not None

    def entry(token: int, text: bytes) -> TokenLogprob:
        top = tuple(TokenLogprob(100 + rank, b"t%d" % rank, -math.inf, rank) for rank in range(sampling.logprobs or 0))
        return TokenLogprob(token, text, -0.25, 1, top)

    steps = [(5, b"\xf0\x9f", ""), (6, b"\x98\x80", "😀"), (7, b" ok", " ok"), (2, b"<|im_end|>", "")]
    done = Done(len(submitted.call.prompt_token_ids), 0, 4)
    finish = Finish(FinishReason.STOP, 4)
    if stream:
        for index, (token, raw, text) in enumerate(steps):
            last = index == 3
            delta = Delta(1, [token], text, logprobs=(entry(token, raw),))
            if last:
                delta.finish, delta.done = finish, done
            submitted.sink.delta(delta)
    else:
        tokens = tuple(entry(token, raw) for token, raw, _ in steps)
        submitted.sink.delta(Delta(1, [5, 6, 7, 2], "😀 ok", logprobs=tokens, finish=finish, done=done))


async def test_log_probabilities_in_a_stream_and_in_a_body_are_the_same(rig: Rig) -> None:
    """N01."""
    rig.router.play = with_logprobs
    plain = (await rig.chat(logprobs=True, top_logprobs=5)).json["choices"][0]["logprobs"]["content"]
    streamed = []
    for event in events((await rig.chat(logprobs=True, top_logprobs=5, stream=True)).body)[:-1]:
        streamed += (event["choices"][0]["logprobs"] or {"content": []})["content"]
    assert streamed == plain
    assert len(plain) == 3
    assert bytes(byte for item in plain for byte in item["bytes"]).decode() == "😀 ok"
    for item in plain:
        assert math.isfinite(item["logprob"])
        assert [other["logprob"] for other in item["top_logprobs"]] == [-9999.0] * 5
    assert rig.router.submitted[0].call.sampling.logprobs == 5
    none = (await rig.chat(logprobs=True)).json["choices"][0]["logprobs"]["content"]
    assert all(item["top_logprobs"] == [] for item in none)


async def test_log_probabilities_of_a_completion(rig: Rig) -> None:
    """N01: the older shape."""
    rig.router.play = with_logprobs
    found = (await rig.complete(logprobs=1)).json["choices"][0]["logprobs"]
    assert found["tokens"] == ["\\xf0\\x9f", "\\x98\\x80", " ok"]
    assert found["token_logprobs"] == [-0.25] * 3
    assert found["top_logprobs"] == [{"t0": -9999.0}] * 3


# --- completions


async def test_a_completion_streamed_and_whole(rig: Rig) -> None:
    plain, streamed = await rig.complete("hi", max_tokens=3), await rig.complete("hi", max_tokens=3, stream=True)
    assert plain.json["object"] == "text_completion"
    assert plain.json["id"].startswith("cmpl-")
    assert plain.json["choices"] == [
        {"index": 0, "text": " word word word", "logprobs": None, "finish_reason": "length"}
    ]
    found = events(streamed.body)
    assert found.pop() == "[DONE]"
    assert joined(streamed.body) == " word word word"
    assert found[-1]["choices"] == [{"index": 0, "text": "", "logprobs": None, "finish_reason": "length"}]
    assert rig.router.submitted[0].call.api == "completions"


async def test_prompts_of_every_kind(rig: Rig) -> None:
    ids = reference("the quick")
    for prompt in ("the quick", ["the quick"], ids, [ids]):
        assert (await rig.complete(prompt)).status == 200
        assert list(rig.router.submitted[-1].call.prompt_token_ids) == ids


@pytest.mark.parametrize("prompt", ["", [], [2**31], [600_000], [-1], ["a", "b"], None, 5])
async def test_prompts_that_are_refused(rig: Rig, prompt: Any) -> None:
    """A07: an empty prompt harms nobody."""
    answer = await rig.complete(prompt)
    assert (answer.status, answer.error["param"]) == (400, "prompt")
    assert (await rig.chat()).status == 200


async def test_a_prompt_that_ends_within_a_character_leaks_nothing_of_itself(rig: Rig) -> None:
    """S01: a prompt that ends inside a character."""
    ids = reference("한")[:-1]
    rig.router.play = lambda submitted: say(submitted, ["x"])
    answer = await rig.complete(ids, stream=True)
    assert joined(answer.body) == "x"


async def test_echo(rig: Rig) -> None:
    for prompt in ("the quick", reference("the quick")):
        plain = await rig.complete(prompt, echo=True, max_tokens=2)
        streamed = await rig.complete(prompt, echo=True, max_tokens=2, stream=True)
        assert plain.json["choices"][0]["text"] == joined(streamed.body) == "the quick word word"


async def test_an_echo_of_nothing_more_needs_no_worker(rig: Rig) -> None:
    """A05: echo with max_tokens 0 gives the prompt back."""
    answer = await rig.complete("the quick", echo=True, max_tokens=0, n=2)
    assert [choice["text"] for choice in answer.json["choices"]] == ["the quick", "the quick"]
    assert answer.json["usage"]["completion_tokens"] == 0
    assert answer.json["usage"]["prompt_tokens"] == len(reference("the quick"))
    streamed = await rig.complete("the quick", echo=True, max_tokens=0, stream=True)
    assert joined(streamed.body) == "the quick"
    assert events(streamed.body)[-1] == "[DONE]"
    assert rig.router.submitted == []
    await rig.idle()
    assert (await rig.complete("the quick", max_tokens=0)).status == 400


async def test_several_choices(rig: Rig) -> None:
    def uneven(submitted: Submitted) -> None:
        for choice, pieces in enumerate((["a"], ["b", "c"], [])):
            if submitted.call.stream:
                for piece in pieces:
                    submitted.sink.delta(Delta(1, [5], piece, choice))
            done = Done(4, 0, 3) if choice == 2 else None
            text = "" if submitted.call.stream else "".join(pieces)
            submitted.sink.delta(Delta(1, [], text, choice, finish=Finish(FinishReason.STOP, 1), done=done))

    rig.router.play = uneven
    plain, streamed = await rig.chat(n=3), await rig.chat(n=3, stream=True)
    for choice, text in enumerate(["a", "bc", ""]):
        assert plain.json["choices"][choice]["message"]["content"] == joined(streamed.body, choice) == text
