"""The body of a generation call, checked: one table of parameters for each route.

Null means absent, for every optional parameter. A parameter that OpenAI has and this server has not is refused by
name, unless its value asks for nothing (``"store": false``); so is a name that nobody knows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from control_plane.contracts.errors import InvalidRequest
from control_plane.gateway.schema.messages import read_messages
from control_plane.gateway.schema.response_format import read_response_format
from control_plane.gateway.schema.values import (
    Reader,
    boolean,
    decimal,
    integer,
    invalid,
    logit_bias,
    mapping,
    missing,
    stop_strings,
    string,
    token_ids,
    wrong_type,
)

MAX_CHOICES = 8
MAX_LOGPROBS = 20
_INT32 = 2**31 - 1
_INT64 = 2**63 - 1

Prompt = str | list[int]


@dataclass(slots=True)
class Generation:
    """A checked call. ``sampling`` has the fields of ``contracts.worker.Sampling`` that the caller set.

    ``max_tokens`` None means as many as fit; ``max_tokens_name`` is what the caller calls it. A chat has ``messages``,
    a completion has ``prompt``.
    """

    model: str
    sampling: dict[str, Any]
    max_tokens: int | None = None
    max_tokens_name: str = "max_tokens"
    stream: bool = False
    include_usage: bool = False
    messages: list[dict[str, str]] = field(default_factory=list)
    prompt: Prompt = ""
    echo: bool = False

    @property
    def choices(self) -> int:
        return int(self.sampling.get("n", 1))


def read_chat(body: dict[str, Any]) -> Generation:
    """The call in a body of ``/v1/chat/completions``. Raises InvalidRequest."""
    values = _read(body, _CHAT)
    if "messages" not in values:
        raise missing("messages")
    logprobs = values.pop("logprobs", False)
    top = values.pop("top_logprobs", None)
    if top is not None and not logprobs:
        raise invalid("top_logprobs", "'top_logprobs' is only allowed when 'logprobs' is true.", "invalid_value")
    generation = _generation(values)
    if logprobs:
        generation.sampling["logprobs"] = top or 0
    generation.messages = values["messages"]
    return generation


def read_completion(body: dict[str, Any]) -> Generation:
    """The call in a body of ``/v1/completions``. Raises InvalidRequest."""
    values = _read(body, _COMPLETION)
    if "prompt" not in values:
        raise missing("prompt")
    generation = _generation(values)
    generation.prompt = values["prompt"]
    generation.echo = values.get("echo", False)
    logprobs = values.get("logprobs")
    if logprobs is not None:
        if generation.echo:
            raise invalid("logprobs", "'logprobs' with 'echo' is not supported.", "invalid_parameter_combination")
        generation.sampling["logprobs"] = logprobs
    if generation.max_tokens == 0 and not generation.echo:
        raise invalid(
            "max_tokens", "Invalid value for 'max_tokens': expected an integer >= 1.", "integer_below_min_value"
        )
    return generation


def _read(body: dict[str, Any], table: dict[str, Reader]) -> dict[str, Any]:
    values = {}
    for name, value in body.items():
        read = table.get(name)
        if read is None:
            _refuse(name, value)
        elif value is not None:
            values[name] = read(name, value)
        elif name == "model":
            raise wrong_type("model", "a string", value)
    if "model" not in values:
        raise missing("model")
    return values


def _generation(values: dict[str, Any]) -> Generation:
    generation = Generation(
        values["model"], {name: values[name] for name in values.keys() & _SAMPLING.keys()}, values.get("max_tokens")
    )
    generation.sampling |= values.get("response_format", {})
    if "max_completion_tokens" in values:
        if generation.max_tokens is not None:
            raise invalid(
                "max_tokens",
                "'max_tokens' and 'max_completion_tokens' cannot both be set.",
                "invalid_parameter_combination",
            )
        generation.max_tokens = values["max_completion_tokens"]
        generation.max_tokens_name = "max_completion_tokens"
    generation.stream = values.get("stream", False)
    if "stream_options" in values:
        if not generation.stream:
            raise invalid("stream_options", "'stream_options' is only allowed when 'stream' is true.", "invalid_value")
        generation.include_usage = values["stream_options"]
    if generation.max_tokens is not None and generation.sampling.get("min_tokens", 0) > generation.max_tokens:
        raise invalid("min_tokens", "'min_tokens' is more than the output may have.", "invalid_value")
    return generation


def _refuse(name: str, value: Any) -> None:
    if name in _TEMPLATES:
        raise invalid(
            "chat_template", "Chat templates come with the model, not with the request.", "unsupported_parameter"
        )
    if name in _UNSUPPORTED:
        # True is 1 and 0 is False only for Python.
        if value is None or any(type(value) is type(nothing) and value == nothing for nothing in _UNSUPPORTED[name]):
            return
        raise invalid(
            name, f"Unsupported parameter: '{name}' is not supported by this server.", "unsupported_parameter"
        )
    short = name[:64]
    raise InvalidRequest(f"Unrecognized request argument supplied: {short}", param=short, code="unknown_parameter")


def _stream_options(name: str, value: Any) -> bool:
    include_usage = False
    for key, item in mapping(name, value).items():
        if key == "include_usage" and item is not None:
            include_usage = boolean(f"{name}.include_usage", item)
        elif key not in ("include_usage", "include_obfuscation") or (item is not None and item is not False):
            raise invalid(f"{name}.{key[:64]}", f"Unsupported parameter: '{name}.{key[:64]}'.", "unsupported_parameter")
    return include_usage


def _prompt(name: str, value: Any) -> Prompt:
    if type(value) is str:
        return value
    if type(value) is not list:
        raise wrong_type(name, "a string or an array of token ids", value)
    ids: list[Any] = value
    if len(ids) == 1 and type(ids[0]) in (str, list):
        # A batch of one.
        if isinstance(ids[0], str):
            return ids[0]
        ids = ids[0]
    if any(type(item) in (str, list) for item in ids):
        raise invalid(name, f"Invalid '{name}': one prompt per call is supported.", "unsupported_value")
    if ids and (set(map(type, ids)) != {int} or min(ids) < 0 or max(ids) > _INT32):
        raise invalid(name, f"Invalid '{name}': its items must be token ids.", "invalid_value")
    return ids


_SAMPLING: dict[str, Reader] = {
    "frequency_penalty": decimal(-2, 2),
    "ignore_eos": boolean,
    "logit_bias": logit_bias,
    "min_p": decimal(0, 1),
    "min_tokens": integer(0, _INT32),
    "n": integer(1, MAX_CHOICES),
    "presence_penalty": decimal(-2, 2),
    "repetition_penalty": decimal(0, 10, above_low=True),
    "seed": integer(-_INT64 - 1, _INT64),
    "stop": stop_strings,
    "stop_token_ids": token_ids,
    "temperature": decimal(0, 2),
    "top_k": integer(-1, _INT32),
    "top_p": decimal(0, 1, above_low=True),
}

_COMMON: dict[str, Reader] = {
    **_SAMPLING,
    "model": string(256, may_be_empty=False),
    "safety_identifier": string(512),
    "stream": boolean,
    "stream_options": _stream_options,
    "user": string(512),
}

_CHAT: dict[str, Reader] = {
    **_COMMON,
    "logprobs": boolean,
    "max_completion_tokens": integer(1, 2**63),
    "max_tokens": integer(1, 2**63),
    "messages": read_messages,
    "response_format": read_response_format,
    "top_logprobs": integer(0, MAX_LOGPROBS),
}

_COMPLETION: dict[str, Reader] = {
    **_COMMON,
    "echo": boolean,
    "logprobs": integer(0, MAX_LOGPROBS),
    "max_tokens": integer(0, 2**63),
    "prompt": _prompt,
    "response_format": read_response_format,
}

_TEMPLATES = frozenset(("chat_template", "chat_template_kwargs"))

# OpenAI's parameters that are not served, each with the values that ask for nothing.
_UNSUPPORTED: dict[str, tuple[Any, ...]] = {
    "audio": (),
    "best_of": (1,),
    "function_call": ("none",),
    "functions": ([],),
    "metadata": ({},),
    "modalities": (["text"],),
    "moderation": (),
    "parallel_tool_calls": (),
    "prediction": (),
    "prompt_cache_key": (),
    "prompt_cache_retention": (),
    "reasoning_effort": (),
    "service_tier": ("auto", "default"),
    "store": (False,),
    "suffix": ("",),
    "tool_choice": ("none",),
    "tools": ([],),
    "verbosity": (),
    "web_search_options": (),
}
