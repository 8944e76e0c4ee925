"""``/tokenize`` and ``/detokenize`` in vLLM's shape: the very ids that a call would have."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from control_plane.contracts.errors import InferDeckError, InternalError, InvalidRequest
from control_plane.gateway.answer.item_json import to_bytes
from control_plane.gateway.http.exchange import Exchange
from control_plane.gateway.models_api import check_model
from control_plane.gateway.prompt.lanes import Job, Lanes
from control_plane.gateway.prompt.model_prompt import ModelPrompt
from control_plane.gateway.prompt.models import ModelPrompts, Waiter
from control_plane.gateway.schema.json_text import read_object
from control_plane.gateway.schema.messages import messages as read_messages
from control_plane.gateway.schema.values import Reader, boolean, integer, invalid, missing, string, wrong_type

_MOST_IDS = 262_144
_MESSAGE_CHARACTERS = 64

Read = Callable[[dict[str, Any]], tuple[str, int, Callable[[ModelPrompt], dict[str, Any]]]]
"""From a body to the model, how much text it is, and what is to be done in a thread."""


class TokenizeApi:
    """``wait_s`` is how long a model's first worker is waited for, as by calls."""

    def __init__(self, prompts: ModelPrompts, lanes: Lanes, wait_s: float) -> None:
        self._prompts = prompts
        self._lanes = lanes
        self._wait_s = wait_s

    def tokenize(self, exchange: Exchange) -> None:
        self._take(exchange, _read_tokenize)

    def detokenize(self, exchange: Exchange) -> None:
        self._take(exchange, _read_detokenize)

    def _take(self, exchange: Exchange, read: Read) -> None:
        model, size, work = read(read_object(exchange.take_body()))
        check_model(exchange.grant, model)

        def found(prompt: ModelPrompt | InferDeckError) -> None:
            exchange.on_gone = None
            if isinstance(prompt, InferDeckError):
                exchange.refuse(prompt)
                return
            job = Job(lambda: to_bytes(work(prompt)), lambda job: _answer(exchange, job))
            try:
                self._lanes.submit(job, size)
            except InferDeckError as error:
                exchange.refuse(error)

        known = self._prompts.get(model)
        if known is not None:
            found(known)
        else:
            waiter = Waiter(found, time.monotonic() + self._wait_s)
            exchange.on_gone = lambda: self._prompts.leave(model, waiter)
            self._prompts.wait(model, waiter)


def _answer(exchange: Exchange, job: Job[bytes]) -> None:
    if isinstance(job.error, InferDeckError):
        exchange.refuse(job.error)
    elif job.error is not None or job.result is None:
        exchange.refuse(InternalError("The text could not be tokenised."))
    else:
        exchange.respond(200, job.result)


def _read_tokenize(body: dict[str, Any]) -> tuple[str, int, Callable[[ModelPrompt], dict[str, Any]]]:
    values = _read(body, _TOKENIZE)
    if ("prompt" in values) == ("messages" in values):
        raise invalid("prompt", "Expected either 'prompt' or 'messages'.", "invalid_parameter_combination")
    with_text = values.get("return_token_strs", False)
    if values.get("add_generation_prompt", True) is not True or values.get("add_special_tokens", True) is not True:
        name = "add_special_tokens" if values.get("add_special_tokens") is False else "add_generation_prompt"
        raise invalid(name, f"'{name}' can only be true: calls are tokenised so.", "unsupported_value")

    def work(prompt: ModelPrompt) -> dict[str, Any]:
        ids = prompt.chat(values["messages"]) if "messages" in values else prompt.completion(values["prompt"])
        return {
            "count": len(ids),
            "max_model_len": prompt.max_context,
            "tokens": ids,
            "token_strs": [prompt.text_of([item]) for item in ids] if with_text else None,
        }

    messages = values.get("messages", [])
    size = len(values.get("prompt", "")) + sum(_MESSAGE_CHARACTERS + len(message["content"]) for message in messages)
    return values["model"], size, work


def _read_detokenize(body: dict[str, Any]) -> tuple[str, int, Callable[[ModelPrompt], dict[str, Any]]]:
    values = _read(body, _DETOKENIZE)
    if "tokens" not in values:
        raise missing("tokens")
    ids: list[int] = values["tokens"]

    def work(prompt: ModelPrompt) -> dict[str, Any]:
        if ids and max(ids) >= prompt.vocab_size:
            raise InvalidRequest(
                f"Invalid 'tokens': token ids must be below {prompt.vocab_size}.", param="tokens", code="invalid_value"
            )
        return {"prompt": prompt.text_of(ids)}

    return values["model"], len(ids), work


def _read(body: dict[str, Any], table: dict[str, Reader]) -> dict[str, Any]:
    values = {}
    for name, value in body.items():
        if name not in table:
            short = name[:64]
            raise invalid(short, f"Unrecognized request argument supplied: {short}", "unknown_parameter")
        if value is not None:
            values[name] = table[name](name, value)
    if "model" not in values:
        raise missing("model")
    return values


_id = integer(0, 2**31 - 1)


def _ids(name: str, value: Any) -> list[int]:
    if type(value) is not list:
        raise wrong_type(name, "an array of token ids", value)
    if len(value) > _MOST_IDS:
        raise invalid(name, f"Invalid '{name}': expected at most {_MOST_IDS} ids.", "array_above_max_length")
    return [_id(name, item) for item in value]


_model = string(256, may_be_empty=False)

_TOKENIZE: dict[str, Reader] = {
    "add_generation_prompt": boolean,
    "add_special_tokens": boolean,
    "messages": read_messages,
    "model": _model,
    "prompt": string(2**63),
    "return_token_strs": boolean,
}

_DETOKENIZE: dict[str, Reader] = {"model": _model, "tokens": _ids}
