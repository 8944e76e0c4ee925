"""The body of a generation call, checked: one table of parameters for each route."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from control_plane.gateway.schema.messages import Message, messages
from control_plane.gateway.schema.response_format import response_format
from control_plane.gateway.schema.table import Table
from control_plane.gateway.schema.thread import Thread, conversation, kept_messages, new_id
from control_plane.gateway.schema.tools import tool_choice, tools
from control_plane.gateway.schema.values import (
    Field,
    boolean,
    decimal,
    integer,
    invalid,
    logit_bias,
    mapping,
    stop_strings,
    string,
    token_ids,
    wrong_type,
)

MAX_CHOICES = 8
MAX_LOGPROBS = 20
_INT32 = 2**31 - 1
_INT64 = 2**63 - 1
_UNBOUNDED = 2**63

Prompt = str | list[int]


@dataclass(slots=True)
class Generation:
    """A checked call. ``sampling`` has the fields of ``contracts.worker.Sampling`` that the caller set.

    ``max_tokens`` None means as many as fit; ``max_tokens_name`` is what the caller calls it. A chat has ``messages``,
    a completion has ``prompt``. ``tools`` are those that the model is to be told of. ``instructions`` come before all
    messages, and are not kept; ``thread`` is what it continues or is kept in. ``body_bytes``: how long the body was;
    ``echoed`` is the prompt as text, once it is known. ``user`` is whom the caller says it is for.
    """

    model: str
    sampling: dict[str, Any]
    max_tokens: int | None = None
    max_tokens_name: str = "max_tokens"
    stream: bool = False
    include_usage: bool = False
    include_hops: bool = False
    messages: list[Message] = field(default_factory=list)
    tools: list[dict[str, Any]] = field(default_factory=list)
    prompt: Prompt = ""
    echo: bool = False
    instructions: str = ""
    body_bytes: int = 0
    echoed: str = ""
    thread: Thread | None = None
    user: str = ""

    @property
    def choices(self) -> int:
        return int(self.sampling.get("n", 1))


def read_chat(body: dict[str, Any]) -> Generation:
    """The call in a body of ``/v1/chat/completions``. Raises InvalidRequest."""
    values = CHAT.read(body)
    logprobs = values.pop("logprobs", False)
    top = values.pop("top_logprobs", None)
    if top is not None and not logprobs:
        raise invalid("top_logprobs", "'top_logprobs' is only allowed when 'logprobs' is true.", "invalid_value")
    generation = _generation(values)
    if logprobs:
        generation.sampling["logprobs"] = top or 0
    generation.messages = values["messages"]
    generation.tools = _offered(values)
    if "conversation" in values:
        if generation.choices > 1:
            raise invalid("n", "'n' can only be 1 with 'conversation'.", "invalid_parameter_combination")
        generation.thread = Thread(new_id("turn"), values["conversation"], messages=kept_messages(generation.messages))
    return generation


def read_completion(body: dict[str, Any]) -> Generation:
    """The call in a body of ``/v1/completions``. Raises InvalidRequest."""
    values = COMPLETION.read(body)
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


def _offered(values: dict[str, Any]) -> list[dict[str, Any]]:
    """The tools that the model is to be told of."""
    offered: list[dict[str, Any]] = values.get("tools", [])
    choice = values.get("tool_choice")
    if not offered:
        for name, asked in (
            ("tool_choice", choice == "auto"),
            ("parallel_tool_calls", "parallel_tool_calls" in values),
        ):
            if asked:
                raise invalid(name, f"'{name}' is only allowed when 'tools' are specified.", "invalid_value")
    return [] if choice == "none" else offered


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
    generation.user = values.get("user", "")
    if "stream_options" in values:
        if not generation.stream:
            raise invalid("stream_options", "'stream_options' is only allowed when 'stream' is true.", "invalid_value")
        options = values["stream_options"]
        generation.include_usage = "include_usage" in options
        generation.include_hops = "include_hops" in options
    if generation.max_tokens is not None and generation.sampling.get("min_tokens", 0) > generation.max_tokens:
        raise invalid("min_tokens", "'min_tokens' is more than the output may have.", "invalid_value")
    return generation


def _stream_options(name: str, value: Any) -> frozenset[str]:
    """Those that are on."""
    on: set[str] = set()
    for key, item in mapping(name, value).items():
        if key in ("include_usage", "include_hops") and item is not None:
            if boolean(f"{name}.{key}", item):
                on.add(key)
        elif key not in ("include_usage", "include_hops", "include_obfuscation") or (
            item is not None and item is not False
        ):
            raise invalid(f"{name}.{key[:64]}", f"Unsupported parameter: '{name}.{key[:64]}'.", "unsupported_parameter")
    return frozenset(on)


def _parallel_tool_calls(name: str, value: Any) -> bool:
    if boolean(name, value) is not True:
        raise invalid(name, f"Unsupported value: '{name}' can only be true: calls come as text.", "unsupported_value")
    return True


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


_IDS = {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": _INT32}}

_SAMPLING: dict[str, Field] = {
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
    "top_k": integer(-1, _INT32, "-1 and 0: all tokens."),
    "top_p": decimal(0, 1, above_low=True),
}

_COMMON: dict[str, Field] = {
    **_SAMPLING,
    "model": string(256, may_be_empty=False, about="A model of /v1/models."),
    "response_format": response_format,
    "safety_identifier": string(512),
    "stream": boolean,
    "stream_options": Field(
        _stream_options,
        {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "include_usage": {"type": ["boolean", "null"]},
                "include_hops": {
                    "type": ["boolean", "null"],
                    "description": "Each event says when its token left each process, in seconds since the call came.",
                },
                "include_obfuscation": {"enum": [False, None]},
            },
        },
        "Only with 'stream'.",
    ),
    "user": string(512),
}

# What OpenAI or vLLM have and this server has not, each with the values that ask for nothing.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "add_special_tokens": (),
    "allowed_token_ids": (),
    "bad_words": ([],),
    "best_of": (1,),
    "cache_salt": (),
    "include_stop_str_in_output": (False,),
    "length_penalty": (1.0, 1),
    "logprob_token_ids": (),
    "metadata": ({},),
    "priority": (0,),
    "prompt_cache_key": (),
    "prompt_cache_options": (),
    "prompt_cache_retention": (),
    "prompt_logprobs": (),
    "return_token_ids": (False,),
    "service_tier": ("auto", "default"),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "store": (False,),
    "structured_outputs": (),
    "truncate_prompt_tokens": (),
    "use_beam_search": (False,),
}

CHAT = Table(
    {
        **_COMMON,
        "conversation": conversation,
        "logprobs": boolean,
        "max_completion_tokens": integer(1, _UNBOUNDED),
        "max_tokens": integer(1, _UNBOUNDED, "The older name of 'max_completion_tokens'; not both."),
        "messages": messages,
        "parallel_tool_calls": Field(_parallel_tool_calls, {"const": True}, "Only with 'tools'."),
        "tool_choice": tool_choice,
        "tools": tools,
        "top_logprobs": integer(0, MAX_LOGPROBS, "Only with 'logprobs'."),
    },
    ("model", "messages"),
    _NEUTRAL
    | {
        "add_generation_prompt": (True,),
        "audio": (),
        "continue_final_message": (False,),
        "documents": ([],),
        "echo": (False,),
        "function_call": ("none",),
        "functions": ([],),
        "include_reasoning": (True,),
        "modalities": (["text"],),
        "moderation": (),
        "prediction": (),
        "reasoning_effort": (),
        "verbosity": (),
        "web_search_options": (),
    },
)

COMPLETION = Table(
    {
        **_COMMON,
        "echo": boolean,
        "logprobs": integer(0, MAX_LOGPROBS),
        "max_tokens": integer(0, _UNBOUNDED, "0 only with 'echo'."),
        "prompt": Field(
            _prompt,
            {
                "anyOf": [
                    {"type": "string"},
                    _IDS,
                    {"type": "array", "items": {"anyOf": [{"type": "string"}, _IDS]}, "minItems": 1, "maxItems": 1},
                ]
            },
            "One prompt, as text or as token ids.",
        ),
    },
    ("model", "prompt"),
    _NEUTRAL | {"prompt_embeds": (), "suffix": ("",)},
)
