"""The bodies of ``/tokenize`` and ``/detokenize``."""

from __future__ import annotations

from typing import Any

from control_plane.gateway.schema.messages import messages
from control_plane.gateway.schema.table import Table
from control_plane.gateway.schema.values import Field, boolean, integer, invalid, string, wrong_type

_MOST_IDS = 262_144
_id = integer(0, 2**31 - 1)
_model = string(256, may_be_empty=False)


def _ids(name: str, value: Any) -> list[int]:
    if type(value) is not list:
        raise wrong_type(name, "an array of token ids", value)
    if len(value) > _MOST_IDS:
        raise invalid(name, f"Invalid '{name}': expected at most {_MOST_IDS} ids.", "array_above_max_length")
    return [_id(name, item) for item in value]


TOKENIZE = Table(
    {
        "messages": messages,
        "model": _model,
        "prompt": string(about="Either this or 'messages'."),
        "return_token_strs": boolean,
    },
    ("model",),
    # Calls are tokenised so.
    {"add_generation_prompt": (True,), "add_special_tokens": (True,)},
)

DETOKENIZE = Table(
    {"model": _model, "tokens": Field(_ids, {"type": "array", "items": _id.schema, "maxItems": _MOST_IDS})},
    ("model", "tokens"),
)
