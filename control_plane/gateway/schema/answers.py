"""The JSON Schemas of what the gateway answers."""

from __future__ import annotations

from typing import Any

from control_plane.gateway.schema.values import Schema

TEXT: Schema = {"type": "string"}
_WHOLE: Schema = {"type": "integer", "minimum": 0}
_FINISH: Schema = {"enum": ["stop", "length"]}


def thing(**properties: Any) -> dict[str, Any]:
    """An object that always has these, and may come to have more."""
    return {"type": "object", "required": list(properties), "properties": properties}


def list_of(item: Schema) -> dict[str, Any]:
    return {"type": "array", "items": item}


ERROR = thing(
    error={
        **thing(message=TEXT, type=TEXT, param={"type": ["string", "null"]}, code={"type": ["string", "null"]}),
        "additionalProperties": False,
    }
)

USAGE = thing(
    prompt_tokens=_WHOLE,
    completion_tokens=_WHOLE,
    total_tokens=_WHOLE,
    prompt_tokens_details=thing(cached_tokens=_WHOLE),
)


def _generated(kind: str, choice: Schema) -> dict[str, Any]:
    return thing(
        id=TEXT,
        object={"const": kind},
        created=_WHOLE,
        model=TEXT,
        system_fingerprint=TEXT,
        choices=list_of(choice),
        usage=USAGE,
    )


_LOGPROBS: Schema = {"type": ["object", "null"]}

CHAT_COMPLETION = _generated(
    "chat.completion",
    thing(
        index=_WHOLE,
        message=thing(role={"const": "assistant"}, content=TEXT, refusal={"type": "null"}),
        logprobs=_LOGPROBS,
        finish_reason=_FINISH,
    ),
)

COMPLETION = _generated("text_completion", thing(index=_WHOLE, text=TEXT, logprobs=_LOGPROBS, finish_reason=_FINISH))

EVENTS: Schema = {"description": "With 'stream': server-sent events, the last one 'data: [DONE]'."}
"""Without a type: some readers take it for that of the whole text, and some for that of each event."""

RESPONSE_EVENTS: Schema = {
    "description": "With 'stream': server-sent events, the last one 'response.completed', '.incomplete' or '.failed'."
}

MODEL = thing(id=TEXT, object={"const": "model"}, created=_WHOLE, owned_by=TEXT)
MODELS = thing(object={"const": "list"}, data=list_of(MODEL))
STATUS = thing(status=TEXT)

_NUMBER_OR_NOT: Schema = {"type": ["number", "null"]}
_TEXT_OR_NOT: Schema = {"type": ["string", "null"]}

MODEL_CHOICE = thing(
    object={"const": "model_choice"},
    asked=TEXT,
    model=TEXT,
    reason=_TEXT_OR_NOT,
    instead_of=_TEXT_OR_NOT,
    ready_workers=_WHOLE,
    price_per_hour=_NUMBER_OR_NOT,
    threshold=_NUMBER_OR_NOT,
    score={
        "anyOf": [
            {"type": "null"},
            thing(
                total={"type": "number", "minimum": 0, "maximum": 1},
                parts=list_of(
                    thing(
                        name=TEXT,
                        value={"type": "number", "minimum": 0, "maximum": 1},
                        weight={"type": "number"},
                        found=TEXT,
                    )
                ),
            ),
        ]
    },
)
