"""What each route says of itself in the document of the API."""

from __future__ import annotations

from typing import Any, Final

from control_plane.gateway.schema import answers
from control_plane.gateway.schema.conversations import ADDED, CHANGED, NEW
from control_plane.gateway.schema.generation import CHAT as CHAT_TABLE
from control_plane.gateway.schema.generation import COMPLETION as COMPLETION_TABLE
from control_plane.gateway.schema.operation import (
    ERRAND_ERRORS,
    EVENTS_TYPE,
    GENERATION_ERRORS,
    JSON_TYPE,
    POST_ERRORS,
    READ_ERRORS,
    Operation,
)
from control_plane.gateway.schema.page_query import INCLUDE, PAGE, RESPONSE_QUERY
from control_plane.gateway.schema.query import Query
from control_plane.gateway.schema.responses import RESPONSE as RESPONSE_TABLE
from control_plane.gateway.schema.route import ROUTE as ROUTE_TABLE
from control_plane.gateway.schema.table import Table
from control_plane.gateway.schema.tokens import DETOKENIZE as DETOKENIZE_TABLE
from control_plane.gateway.schema.tokens import TOKENIZE as TOKENIZE_TABLE

_OBJECT: Final = {JSON_TYPE: {"type": "object"}}
_ID: Final[dict[str, Any]] = {"type": "string", "minLength": 1}
_RESPONSE: Final = {"response_id": _ID}
_CONVERSATION: Final = {"conversation_id": _ID}
_ITEM: Final = {"conversation_id": _ID, "item_id": _ID}


def _of(
    path: dict[str, Any], summary: str, body: Table | None = None, example: Any = None, query: Query | None = None
) -> Operation:
    errors = {*ERRAND_ERRORS, 507, *(POST_ERRORS if body is not None else ())}
    return Operation(summary, _OBJECT, body, tuple(errors), path=path, example=example, query=query)


_HELLO: Final = [{"type": "message", "role": "user", "content": "Hello."}]

CHAT: Final = Operation(
    "The next message of a conversation.",
    {JSON_TYPE: answers.CHAT_COMPLETION, EVENTS_TYPE: answers.EVENTS},
    CHAT_TABLE,
    (*GENERATION_ERRORS, 507),
    example={"model": "MODEL", "messages": [{"role": "user", "content": "Hello."}]},
)
COMPLETION: Final = Operation(
    "What comes after a prompt.",
    {JSON_TYPE: answers.COMPLETION, EVENTS_TYPE: answers.EVENTS},
    COMPLETION_TABLE,
    GENERATION_ERRORS,
    example={"model": "MODEL", "prompt": "Hello."},
)

RESPONSE: Final = Operation(
    "An answer that can be stored and continued.",
    {JSON_TYPE: {"type": "object"}, EVENTS_TYPE: answers.RESPONSE_EVENTS},
    RESPONSE_TABLE,
    (*GENERATION_ERRORS, 507),
    example={"model": "MODEL", "input": "Hello.", "store": True, "stream": False},
)
READ_RESPONSE: Final = _of(_RESPONSE, "Read a stored response.", query=RESPONSE_QUERY)
DELETE_RESPONSE: Final = _of(_RESPONSE, "Delete a stored response.")
CANCEL_RESPONSE: Final = Operation(
    "Refused: only responses made in the background can be cancelled, and there are none.",
    _OBJECT,
    errors=(*POST_ERRORS, *ERRAND_ERRORS),
    path=_RESPONSE,
)
LIST_INPUT: Final = _of(_RESPONSE, "List what came with a stored response.", query=PAGE)

MAKE_CONVERSATION: Final = _of({}, "Make a conversation.", NEW, {"metadata": {"topic": "tests"}, "items": _HELLO})
LIST_CONVERSATIONS: Final = _of({}, "List one's own conversations.", query=PAGE)
READ_CONVERSATION: Final = _of(_CONVERSATION, "Read a conversation.")
CHANGE_CONVERSATION: Final = _of(
    _CONVERSATION, "Replace a conversation's metadata.", CHANGED, {"metadata": {"topic": "other"}}
)
DELETE_CONVERSATION: Final = _of(_CONVERSATION, "Delete a conversation and all that is in it.")
ADD_ITEMS: Final = _of(_CONVERSATION, "Add items to a conversation.", ADDED, {"items": _HELLO}, INCLUDE)
LIST_ITEMS: Final = _of(_CONVERSATION, "List a conversation's items.", query=PAGE)
READ_ITEM: Final = _of(_ITEM, "Read an item.", query=INCLUDE)
DELETE_ITEM: Final = _of(_ITEM, "Delete an item.")

TOKENIZE: Final = Operation(
    "The token ids that a call would have.",
    _OBJECT,
    TOKENIZE_TABLE,
    (*POST_ERRORS, *ERRAND_ERRORS, 403),
    example={"model": "MODEL", "prompt": "Hello."},
)
DETOKENIZE: Final = Operation(
    "The text of token ids.",
    _OBJECT,
    DETOKENIZE_TABLE,
    (*POST_ERRORS, *ERRAND_ERRORS, 403),
    example={"model": "MODEL", "tokens": [1, 2, 3]},
)
ROUTE: Final = Operation(
    "Which model a call would go to, and why, without running it.",
    {JSON_TYPE: answers.MODEL_CHOICE},
    ROUTE_TABLE,
    (*POST_ERRORS, *ERRAND_ERRORS, 403),
    example={"model": "MODEL", "prompt": "Hello."},
)

LIST_MODELS: Final = Operation(
    "Every model, whether or not a worker of it is up, and every name that leads to models.",
    {JSON_TYPE: answers.MODELS},
)
READ_MODEL: Final = Operation(
    "One model.",
    {JSON_TYPE: answers.MODEL},
    errors=(*READ_ERRORS, 404),
    path={"model": {"type": "string", "minLength": 1}},
)
HEALTH: Final = Operation("Whether the process lives.", {JSON_TYPE: answers.STATUS})
READY: Final = Operation("Whether a worker can be picked.", {JSON_TYPE: answers.STATUS}, other={503: answers.STATUS})
METRICS: Final = Operation("Prometheus metrics, of the models that the key may call.", {"text/plain": answers.TEXT})
DOCUMENT: Final = Operation("This document.", _OBJECT)
PREFLIGHT: Final = Operation("What a page of another origin may send.", {})
