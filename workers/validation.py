"""What a call must be before an engine sees it: one bad number must never reach code that serves everyone."""

from __future__ import annotations

import json
import math

from control_plane.contracts.errors import DropReason, InvalidRequest
from control_plane.contracts.worker import Generate, ModelInfo, Sampling

MAX_CHOICES = 128
MAX_LOGPROBS = 20
MAX_STOPS = 16
_SEED_BOUND = 2**63


def check(generate: Generate, model: ModelInfo) -> None:
    """Raise InvalidRequest, with ``param`` naming the field, for a call that no engine could run as asked."""
    if not generate.request_id:
        raise InvalidRequest("a call needs a request id", param="request_id")
    prompt = generate.prompt_token_ids
    if not prompt:
        raise InvalidRequest("the prompt is empty", param="prompt")
    if model.vocab_size and max(prompt) >= model.vocab_size:
        raise InvalidRequest(
            f"token id {max(prompt)} is not in the vocabulary of {model.vocab_size} tokens", param="prompt"
        )
    if model.max_context and len(prompt) >= model.max_context:
        raise InvalidRequest(
            f"the model's context is {model.max_context} tokens and the prompt has {len(prompt)}, "
            "which leaves no room for an answer",
            reason=DropReason.CONTEXT_LENGTH_EXCEEDED,
            param="prompt",
        )
    _check_sampling(generate.sampling, model)
    if not 0 <= generate.resumed < min(len(prompt), generate.sampling.max_tokens):
        if generate.resumed:
            raise InvalidRequest("resumed is less than the prompt's tokens, and than max_tokens", param="resumed")
    elif generate.resumed and (generate.sampling.n > 1 or not generate.stream):
        raise InvalidRequest("only a stream with one choice can be resumed", param="resumed")


def _check_sampling(sampling: Sampling, model: ModelInfo) -> None:
    _within("n", sampling.n, 1, MAX_CHOICES)
    _within("max_tokens", sampling.max_tokens, 1, math.inf)
    _within("min_tokens", sampling.min_tokens, 0, sampling.max_tokens)
    _within("temperature", sampling.temperature, 0.0, 100.0)
    _within("top_p", sampling.top_p, 0.0, 1.0, above=True)
    _within("min_p", sampling.min_p, 0.0, 1.0)
    _within("presence_penalty", sampling.presence_penalty, -2.0, 2.0)
    _within("frequency_penalty", sampling.frequency_penalty, -2.0, 2.0)
    _within("repetition_penalty", sampling.repetition_penalty, 0.0, 100.0, above=True)
    _within("logprobs", sampling.logprobs, 0, MAX_LOGPROBS)
    _within("seed", sampling.seed, -_SEED_BOUND, _SEED_BOUND - 1)
    if sampling.top_k is not None and sampling.top_k < -1:
        raise InvalidRequest("top_k must be -1, 0 or positive", param="top_k")
    if len(sampling.stop) > MAX_STOPS or "" in sampling.stop:
        raise InvalidRequest(f"stop takes at most {MAX_STOPS} strings, none of them empty", param="stop")
    for token, bias in sampling.logit_bias.items():
        if model.vocab_size and token >= model.vocab_size:
            raise InvalidRequest(f"logit_bias names token {token}, which is not in the vocabulary", param="logit_bias")
        _within("logit_bias", bias, -100.0, 100.0)
    if model.vocab_size and any(token >= model.vocab_size for token in sampling.stop_token_ids):
        raise InvalidRequest("a stop token is not in the vocabulary", param="stop_token_ids")
    if sampling.json_schema is not None:
        _check_schema(sampling.json_schema)


def _within(name: str, value: float | None, low: float, high: float, *, above: bool = False) -> None:
    if value is None:
        return
    if not math.isfinite(value) or value < low or value > high or (above and value == low):
        bounds = f"more than {low:g}" if above else f"at least {low:g}"
        limit = "" if high == math.inf else f" and at most {high:g}"
        raise InvalidRequest(f"{name} must be {bounds}{limit}", param=name)


def _check_schema(text: str) -> None:
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest("json_schema is not JSON", param="response_format") from error
    if not isinstance(schema, dict | bool):
        raise InvalidRequest("json_schema is not a schema", param="response_format")
