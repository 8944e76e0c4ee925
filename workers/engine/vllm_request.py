"""From a call to what vLLM takes."""

from __future__ import annotations

from typing import Any

from vllm.inputs.engine import tokens_input
from vllm.sampling_params import RequestOutputKind, SamplingParams, StructuredOutputsParams

from control_plane.contracts.worker import Generate, Sampling

_SEEDS = 2**63
_LEAST_TEMPERATURE = 0.01  # below it vLLM clamps, and says so in the log for every request
_OPTIONAL = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
)


def sampling_params(sampling: Sampling, defaults: dict[str, Any], choice: int, resumed: int = 0) -> SamplingParams:
    """One choice's parameters; ``defaults`` are the model's own, ``resumed`` tokens of the answer are part of the
    prompt. Raises VLLMValidationError or ValueError."""
    given = {name: value for name in _OPTIONAL if (value := getattr(sampling, name)) is not None}
    values = {name: value for name, value in defaults.items() if name in _OPTIONAL} | given
    if 0 < values.get("temperature", 1.0) < _LEAST_TEMPERATURE:
        values["temperature"] = _LEAST_TEMPERATURE
    return SamplingParams(
        max_tokens=sampling.max_tokens - resumed,
        min_tokens=max(0, sampling.min_tokens - resumed),
        stop=list(sampling.stop),
        stop_token_ids=list(sampling.stop_token_ids),
        ignore_eos=sampling.ignore_eos,
        # The next choices' seeds follow, as vLLM has it; one too large for torch would end the engine for everyone.
        # An answer that goes on must not draw again what it drew for its first tokens.
        seed=None if sampling.seed is None else (sampling.seed + choice + resumed) % _SEEDS,
        logit_bias=dict(sampling.logit_bias) or None,
        logprobs=sampling.logprobs,
        structured_outputs=_structured(sampling),
        output_kind=RequestOutputKind.DELTA,
        **values,
    )


def is_structured(sampling: Sampling) -> bool:
    """Whether the answer must follow a grammar, which is compiled when the request is checked."""
    return bool(sampling.json_object) or sampling.json_schema is not None or sampling.regex is not None


def check_backend(params: SamplingParams) -> None:
    """Raises ValueError for a grammar that vLLM, left to choose, would leave to outlines. It compiles a regular
    expression to all of its states, of which a few characters can ask for millions: a caller could so take the engine's
    memory. Whoever sets that backend for a pool has chosen it."""
    grammar = params.structured_outputs
    if grammar is not None and grammar._backend == "outlines" and grammar._backend_was_auto:
        raise ValueError(
            "'patternProperties' cannot be followed together with other parts of this schema that xgrammar lacks."
        )


def engine_input(call: Generate) -> Any:
    return tokens_input(list(call.prompt_token_ids), cache_salt=call.cache_salt or None)


def _structured(sampling: Sampling) -> StructuredOutputsParams | None:
    if sampling.json_schema is not None:
        return StructuredOutputsParams(json=sampling.json_schema)
    if sampling.json_object:
        return StructuredOutputsParams(json_object=True)
    if sampling.regex is not None:
        return StructuredOutputsParams(regex=sampling.regex)
    return None
