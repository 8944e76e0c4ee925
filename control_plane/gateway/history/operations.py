"""What the routes of conversations, responses and tokens say of themselves in the document of the API."""

from __future__ import annotations

from typing import Any, Final

from control_plane.gateway.schema import answers
from control_plane.gateway.schema.operation import (
    EVENTS_TYPE,
    GENERATION_ERRORS,
    JSON_TYPE,
    POST_ERRORS,
    Operation,
)
from control_plane.gateway.schema.table import Table
from control_plane.gateway.schema.values import Field, Reader

_OBJECT: Final = {JSON_TYPE: {"type": "object"}}
_ID: Final[dict[str, Any]] = {"type": "string", "minLength": 1}
_ERRORS: Final = (*POST_ERRORS, 404)


def _open(name: str, value: Any) -> Any:
    return value


def loose(readers: dict[str, Reader], required: tuple[str, ...] = ()) -> Table:
    """A table whose fields the document does not describe further."""
    return Table({name: Field(read, {}) for name, read in readers.items()}, required)


RESPONSE: Final = Operation(
    "An answer that can be stored and continued.",
    {JSON_TYPE: {"type": "object"}, EVENTS_TYPE: answers.EVENTS},
    loose(dict.fromkeys(("model", "input"), _open), ("model", "input")),
    GENERATION_ERRORS,
)
ONE_RESPONSE: Final = Operation("A stored response.", _OBJECT, errors=_ERRORS, path={"response_id": _ID})
CONVERSATIONS: Final = Operation("Make a conversation, or list one's own.", _OBJECT, errors=_ERRORS)
CONVERSATION: Final = Operation("One conversation.", _OBJECT, errors=_ERRORS, path={"conversation_id": _ID})
ITEMS: Final = Operation("Its items.", _OBJECT, errors=_ERRORS, path={"conversation_id": _ID})
ITEM: Final = Operation("One item.", _OBJECT, errors=_ERRORS, path={"conversation_id": _ID, "item_id": _ID})
TOKENIZE: Final = Operation("The token ids that a call would have.", _OBJECT, errors=(*_ERRORS, 403))
