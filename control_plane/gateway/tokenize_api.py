"""``/tokenize`` and ``/detokenize`` in vLLM's shape: the very ids that a call would have."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from control_plane.contracts.call import Router
from control_plane.contracts.errors import InferDeckError, InternalError, InvalidRequest
from control_plane.gateway.answer.item_json import to_bytes
from control_plane.gateway.errand import Errand, Errands
from control_plane.gateway.http.exchange import Exchange
from control_plane.gateway.model_door import check_model, only_model
from control_plane.gateway.prompt.lanes import Job
from control_plane.gateway.prompt.model_prompt import ModelPrompt
from control_plane.gateway.prompt.models import ModelPrompts, Waiter
from control_plane.gateway.schema.tokens import DETOKENIZE, TOKENIZE
from control_plane.gateway.schema.values import invalid


@dataclass(frozen=True, slots=True)
class Asked:
    """What a body asks for; ``work`` is done in a thread."""

    model: str
    work: Callable[[ModelPrompt], dict[str, Any]]


class TokenizeApi:
    """``wait_s`` is how long a model's first worker is waited for, as by calls."""

    def __init__(self, router: Router, prompts: ModelPrompts, errands: Errands, wait_s: float) -> None:
        self._router = router
        self._prompts = prompts
        self._errands = errands
        self._wait_s = wait_s

    def tokenize(self, exchange: Exchange) -> None:
        self._take(exchange, _read_tokenize)

    def detokenize(self, exchange: Exchange) -> None:
        self._take(exchange, _read_detokenize)

    def _take(self, exchange: Exchange, read: Callable[[dict[str, Any]], Asked]) -> None:
        # Of its bytes, there can be no more to tokenise or to write.
        size = exchange.received

        def begin(asked: Asked) -> None:
            check_model(self._router, exchange.grant, asked.model)
            one = replace(asked, model=only_model(self._router, asked.model))
            self._errands.start(exchange, lambda errand: self._find(errand, one, size))

        self._errands.read(exchange, read, begin)

    def _find(self, errand: Errand, asked: Asked, size: int) -> None:
        prompts = self._prompts

        def found(prompt: ModelPrompt | InferDeckError) -> None:
            errand.leave = None
            if isinstance(prompt, InferDeckError):
                errand.refuse(prompt)
            else:
                self._work(errand, lambda: to_bytes(asked.work(prompt)), size)

        known = prompts.get(asked.model)
        if known is not None:
            found(known)
            return
        waiter = Waiter(found, time.monotonic() + self._wait_s)
        errand.leave = lambda: prompts.leave(asked.model, waiter)
        prompts.wait(asked.model, waiter)

    def _work(self, errand: Errand, work: Callable[[], bytes], size: int) -> None:
        job = Job(work, lambda job: _answer(errand, job))

        def leave() -> None:
            job.cancelled = True

        errand.leave = leave
        try:
            self._errands.lanes.submit(job, size)
        except InferDeckError as error:
            errand.refuse(error)


def _answer(errand: Errand, job: Job[bytes]) -> None:
    if isinstance(job.error, InferDeckError):
        errand.refuse(job.error)
    elif job.error is not None or job.result is None:
        errand.refuse(InternalError("The text could not be tokenised."))
    else:
        errand.respond(job.result)


def _read_tokenize(body: dict[str, Any]) -> Asked:
    values = TOKENIZE.read(body)
    if ("prompt" in values) == ("messages" in values):
        raise invalid("prompt", "Expected either 'prompt' or 'messages'.", "invalid_parameter_combination")
    with_text = values.get("return_token_strs", False)

    def work(prompt: ModelPrompt) -> dict[str, Any]:
        ids = prompt.chat(values["messages"]) if "messages" in values else prompt.completion(values["prompt"])
        return {
            "count": len(ids),
            "max_model_len": prompt.max_context,
            "tokens": ids,
            "token_strs": [prompt.text_of([item]) for item in ids] if with_text else None,
        }

    return Asked(values["model"], work)


def _read_detokenize(body: dict[str, Any]) -> Asked:
    values = DETOKENIZE.read(body)
    ids: list[int] = values["tokens"]

    def work(prompt: ModelPrompt) -> dict[str, Any]:
        if ids and max(ids) >= prompt.vocab_size:
            raise InvalidRequest(
                f"Invalid 'tokens': token ids must be below {prompt.vocab_size}.", param="tokens", code="invalid_value"
            )
        return {"prompt": prompt.text_of(ids)}

    return Asked(values["model"], work)
