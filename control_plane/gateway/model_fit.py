"""Whether a call fits its model, once its prompt is tokens: the context, and the vocabulary."""

from __future__ import annotations

from control_plane.contracts.errors import DropReason, InvalidRequest
from control_plane.gateway.prompt.model_prompt import ModelPrompt
from control_plane.gateway.schema.generation import Generation


def output_room(generation: Generation, prompt: ModelPrompt, prompt_tokens: int, param: str) -> int:
    """The most tokens that each choice may have. Raises InvalidRequest where the call cannot fit; ``param``
    names what its prompt came in."""
    limit, asked, name = prompt.max_context, generation.max_tokens, generation.max_tokens_name
    if prompt_tokens > limit or (prompt_tokens == limit and asked != 0):
        in_completion = "" if asked is None else f" ({prompt_tokens} in the {param}, {asked} in the completion)"
        raise InvalidRequest(
            f"This model's maximum context length is {limit} tokens. However, you requested "
            f"{prompt_tokens + (asked or 0)} tokens{in_completion or f' in the {param}'}. "
            f"Please reduce the length of the {param}.",
            reason=DropReason.CONTEXT_LENGTH_EXCEEDED,
            param=param,
        )
    if asked is None:
        return limit - prompt_tokens
    if prompt_tokens + asked > limit:
        raise InvalidRequest(
            f"'{name}' is too large: this model's maximum context length is {limit} tokens, and you requested "
            f"{prompt_tokens + asked} ({prompt_tokens} in the {param}, {asked} in the completion). "
            f"At most {limit - prompt_tokens} are left for the completion.",
            reason=DropReason.CONTEXT_LENGTH_EXCEEDED if asked < limit else DropReason.INVALID_REQUEST,
            code=None if asked < limit else "integer_above_max_value",
            param=name,
        )
    return asked


def check_vocabulary(generation: Generation, prompt: ModelPrompt) -> None:
    """Raises InvalidRequest for a token id that the model does not have."""
    for name in ("logit_bias", "stop_token_ids"):
        ids = generation.sampling.get(name)
        if ids and max(ids) >= prompt.vocab_size:
            raise InvalidRequest(
                f"Invalid value for '{name}': this model's token ids are below {prompt.vocab_size}.",
                param=name,
                code="invalid_value",
            )
