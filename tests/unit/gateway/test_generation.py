from __future__ import annotations

from typing import Any

import pytest

from control_plane.contracts.errors import InvalidRequest
from control_plane.gateway.schema.generation import Generation, read_chat, read_completion

HELLO = [{"role": "user", "content": "hi"}]


def chat(**fields: Any) -> Generation:
    return read_chat({"model": "m", "messages": HELLO} | fields)


def completion(**fields: Any) -> Generation:
    return read_completion({"model": "m", "prompt": "hi"} | fields)


def refusal(**fields: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        chat(**fields)
    assert caught.value.status.http == 400
    assert caught.value.code
    return caught.value


def test_the_smallest_calls() -> None:
    assert chat() == Generation("m", {}, messages=[{"role": "user", "content": "hi"}])
    assert completion() == Generation("m", {}, prompt="hi")


def test_everything_that_sampling_takes() -> None:
    sampling = {
        "temperature": 0.5,
        "top_p": 1,
        "top_k": -1,
        "min_p": 0,
        "repetition_penalty": 1.1,
        "presence_penalty": -2,
        "frequency_penalty": 2,
        "seed": -(2**63),
        "n": 8,
        "min_tokens": 3,
        "ignore_eos": True,
        "stop_token_ids": [7],
    }
    read = chat(**sampling, stop=["a", "b"], logit_bias={"5": -100, "6": 1.5}, user="u", safety_identifier="s")
    assert read.sampling == sampling | {
        "stop_token_ids": (7,),
        "stop": ("a", "b"),
        "logit_bias": {5: -100.0, 6: 1.5},
    }
    assert read.choices == 8


@pytest.mark.parametrize(
    "fields",
    [
        {"best_of": True},
        {"best_of": 1.0},
        {"store": 0},
        {"store": 0.0},
        {"metadata": []},
        {"functions": {}},
        {"stream": True, "stream_options": {"include_obfuscation": 0}},
    ],
)
def test_nothing_is_asked_for_in_the_right_type_only(fields: dict[str, Any]) -> None:
    assert refusal(**fields).code == "unsupported_parameter"


def test_what_asks_for_nothing_is_taken() -> None:
    assert (
        chat(bad_words=[], best_of=1, store=False, metadata={}, tools=[], service_tier="auto", modalities=["text"])
        == chat()
    )


@pytest.mark.parametrize("prompt", [[[[1]]], [["a"]], [[[]]], [["a"], [1]], [[1], [2]]])
def test_a_prompt_is_one_text_or_one_list_of_token_ids(prompt: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        completion(prompt=prompt)
    assert caught.value.param == "prompt"


@pytest.mark.parametrize(("prompt", "read"), [("a", "a"), (["a"], "a"), ([1, 2], [1, 2]), ([[1, 2]], [1, 2])])
def test_a_batch_of_one_prompt_is_that_prompt(prompt: Any, read: Any) -> None:
    assert completion(prompt=prompt).prompt == read


@pytest.mark.parametrize("name", ["temperature", "max_tokens", "stop", "seed", "logit_bias", "stream", "n", "tools"])
def test_null_means_absent(name: str) -> None:
    assert chat(**{name: None}) == chat()


@pytest.mark.parametrize("value", [0, 1e-4, 1, 2, 2.0])
def test_temperatures_that_are_good(value: float) -> None:
    assert chat(temperature=value).sampling == {"temperature": float(value)}


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("temperature", float("nan"), "decimal_below_min_value"),
        ("temperature", float("inf"), "decimal_above_max_value"),
        ("temperature", -1, "decimal_below_min_value"),
        ("temperature", 2.1, "decimal_above_max_value"),
        ("temperature", 10**400, "decimal_above_max_value"),
        ("temperature", -(10**400), "decimal_below_min_value"),
        ("temperature", "0.5", "invalid_type"),
        ("temperature", True, "invalid_type"),
        ("top_p", 0, "decimal_below_min_value"),
        ("top_p", 1.1, "decimal_above_max_value"),
        ("min_p", -0.1, "decimal_below_min_value"),
        ("repetition_penalty", 0, "decimal_below_min_value"),
        ("presence_penalty", 2.5, "decimal_above_max_value"),
        ("seed", 2**64, "integer_above_max_value"),
        ("seed", 1.0, "invalid_type"),
        ("n", 0, "integer_below_min_value"),
        ("n", 9, "integer_above_max_value"),
        ("n", True, "invalid_type"),
        ("max_tokens", 0, "integer_below_min_value"),
        ("max_tokens", -1, "integer_below_min_value"),
        ("max_tokens", 1.5, "invalid_type"),
        ("max_tokens", "5", "invalid_type"),
        ("max_tokens", 1e9, "invalid_type"),
        ("max_tokens", 10**30, "integer_above_max_value"),
        ("max_completion_tokens", 0, "integer_below_min_value"),
        ("top_logprobs", 10**30, "integer_above_max_value"),
        ("top_logprobs", 21, "integer_above_max_value"),
        ("top_logprobs", 5, "invalid_value"),
        ("logprobs", 5, "invalid_type"),
        ("logit_bias", {"AI": 1}, "invalid_value"),
        ("logit_bias", {"-1": 1}, "invalid_value"),
        ("logit_bias", {"1": 101}, "decimal_above_max_value"),
        ("logit_bias", {"1": "x"}, "invalid_type"),
        ("logit_bias", [1], "invalid_type"),
        ("logit_bias", {str(i): 0 for i in range(1025)}, "object_above_max_properties"),
        ("stop", ["a"] * 5, "array_above_max_length"),
        ("stop", "", "empty_string"),
        ("stop", ["a", ""], "empty_string"),
        ("stop", [1], "invalid_type"),
        ("stop", 1, "invalid_type"),
        ("stop", "x" * 1025, "string_above_max_length"),
        ("stop_token_ids", [-1], "integer_below_min_value"),
        ("stream", "true", "invalid_type"),
        ("stream_options", {"include_usage": True}, "invalid_value"),
        ("user", 1, "invalid_type"),
        ("model", "", "empty_string"),
        ("model", None, "invalid_type"),
        ("model", 1, "invalid_type"),
        ("messages", [], "empty_array"),
        ("messages", "hi", "invalid_type"),
        ("min_tokens", -1, "integer_below_min_value"),
    ],
)
def test_what_is_refused_and_how(name: str, value: Any, code: str) -> None:
    """A05, A06, S02: every code."""
    error = refusal(**{name: value})
    assert (error.param, error.code) == (name, code)


def test_stop_in_every_form() -> None:
    """S02."""
    assert chat(stop="x").sampling["stop"] == ("x",)
    assert chat(stop=[]).sampling["stop"] == ()
    assert chat(stop=["a", "b", "c", "d"]).sampling["stop"] == ("a", "b", "c", "d")
    assert "stop" not in chat(stop=None).sampling


def test_the_two_names_of_the_output_bound() -> None:
    """A05: neither wins."""
    assert (chat(max_tokens=5).max_tokens, chat(max_tokens=5).max_tokens_name) == (5, "max_tokens")
    newer = chat(max_completion_tokens=5)
    assert (newer.max_tokens, newer.max_tokens_name) == (5, "max_completion_tokens")
    error = refusal(max_tokens=50, max_completion_tokens=5)
    assert (error.param, error.code) == ("max_tokens", "invalid_parameter_combination")
    assert refusal(max_tokens=2, min_tokens=3).param == "min_tokens"


def test_stream_options() -> None:
    assert not chat(stream=True).include_usage
    assert chat(stream=True, stream_options={"include_usage": True}).include_usage
    assert not chat(stream=True, stream_options={"include_usage": None, "include_obfuscation": False}).include_usage
    assert refusal(stream=True, stream_options={"include_obfuscation": True}).param == (
        "stream_options.include_obfuscation"
    )
    assert refusal(stream=True, stream_options={"include_usage": 1}).param == "stream_options.include_usage"


def test_hops_are_told_only_where_they_are_asked_for() -> None:
    assert not chat(stream=True, stream_options={"include_usage": True}).include_hops
    asked = chat(stream=True, stream_options={"include_hops": True})
    assert (asked.include_hops, asked.include_usage) == (True, False)
    assert not chat(stream=True, stream_options={"include_hops": False}).include_hops
    assert refusal(stream=True, stream_options={"include_hops": 1}).param == "stream_options.include_hops"


def test_log_probabilities() -> None:
    assert chat(logprobs=True).sampling == {"logprobs": 0}
    assert chat(logprobs=True, top_logprobs=20).sampling == {"logprobs": 20}
    assert chat(logprobs=False).sampling == {}
    assert completion(logprobs=0).sampling == {"logprobs": 0}


@pytest.mark.parametrize("name", ["chat_template", "chat_template_kwargs"])
def test_templates_do_not_come_with_requests(name: str) -> None:
    """SE02."""
    for value in ("{% for i in range(10**9) %}x{% endfor %}", {"chat_template": "x"}, None):
        assert refusal(**{name: value}).param == "chat_template"


@pytest.mark.parametrize(
    ("name", "asks", "neutral"),
    [
        ("functions", [{"name": "f"}], []),
        ("store", True, False),
        ("service_tier", "priority", "auto"),
        ("modalities", ["audio"], ["text"]),
        ("reasoning_effort", "high", None),
        ("best_of", 2, 1),
    ],
)
def test_what_openai_has_and_this_server_has_not(name: str, asks: Any, neutral: Any) -> None:
    error = refusal(**{name: asks})
    assert (error.param, error.code) == (name, "unsupported_parameter")
    assert chat(**{name: neutral}) == chat()


def test_names_that_nobody_knows() -> None:
    error = refusal(temprature=1)
    assert (error.param, error.code) == ("temprature", "unknown_parameter")
    assert "temprature" in error.message
    assert len(refusal(**{"x" * 10_000: 1}).message) < 200


def test_what_is_missing() -> None:
    for body, name in (({"messages": HELLO}, "model"), ({"model": "m"}, "messages")):
        with pytest.raises(InvalidRequest) as caught:
            read_chat(body)
        assert (caught.value.param, caught.value.code) == (name, "missing_required_parameter")
    with pytest.raises(InvalidRequest) as caught:
        read_completion({"model": "m"})
    assert caught.value.param == "prompt"


def test_prompts_in_every_form() -> None:
    assert completion(prompt="").prompt == ""
    assert completion(prompt=[1, 2]).prompt == [1, 2]
    assert completion(prompt=["one"]).prompt == "one"
    assert completion(prompt=[[1, 2]]).prompt == [1, 2]
    for bad in (["a", "b"], [[1], [2]], [1, "a"], [-1], [1.0], [True], [2**31], 5, {}):
        with pytest.raises(InvalidRequest) as caught:
            completion(prompt=bad)
        assert caught.value.param == "prompt"


def test_echo_may_ask_for_nothing_more() -> None:
    read = completion(echo=True, max_tokens=0)
    assert (read.echo, read.max_tokens) == (True, 0)
    for fields in ({"max_tokens": 0}, {"echo": True, "logprobs": 1}):
        with pytest.raises(InvalidRequest):
            completion(**fields)


def test_a_completion_has_no_messages_and_a_chat_no_prompt() -> None:
    assert refusal(prompt="x").param == "prompt"
    with pytest.raises(InvalidRequest):
        completion(messages=HELLO)
