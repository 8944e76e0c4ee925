"""The queries of lists and of single items: one table for each says what is read and what the document tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from control_plane.gateway.schema.query import Query, QueryField
from control_plane.gateway.schema.values import integer, one_of, string, wrong_type

_DEFAULT_LIMIT: Final = 20
_DIGITS: Final = 9

_INCLUDABLE: Final = (
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "message.output_text.logprobs",
    "reasoning.encrypted_content",
    "web_search_call.action.sources",
    "web_search_call.results",
)
"""What OpenAI's clients may ask for beside the items; items here have none of it."""

_limit = integer(1, 100)
_after = string(64, may_be_empty=False)


@dataclass(frozen=True, slots=True)
class PageQuery:
    order: Literal["asc", "desc"] = "desc"
    after: str = ""
    limit: int = _DEFAULT_LIMIT


def _read_limit(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS):
        raise wrong_type(name, "an integer", text)
    return int(_limit(name, int(text)))


def _words(*words: str) -> Any:
    return lambda name, text: one_of(name, text, words)


_INCLUDE: Final = QueryField(
    _words(*_INCLUDABLE),
    {"type": "array", "items": {"enum": list(_INCLUDABLE)}},
    "Taken, and nothing is added: items here have none of it.",
    written=("include", "include[]"),
)

INCLUDE: Final = Query({"include": _INCLUDE})
"""Of a single item, and of items that are added."""

RESPONSE_QUERY: Final = Query(
    {"include": _INCLUDE, "stream": QueryField(_words("false"), {"const": False}, "A stored response comes whole.")}
)

PAGE: Final = Query(
    {
        "after": QueryField(_after.read, _after.schema, "The id of the last one of the page before."),
        "include": _INCLUDE,
        "limit": QueryField(_read_limit, {**_limit.schema, "default": _DEFAULT_LIMIT}, "How many at most."),
        "order": QueryField(
            _words("asc", "desc"), {"enum": ["asc", "desc"], "default": "desc"}, "The oldest first, or the newest."
        ),
    }
)


def read_page_query(query: Sequence[tuple[str, str]]) -> PageQuery:
    """Raises InvalidRequest."""
    values = PAGE.read(query)
    values.pop("include", None)
    return PageQuery(**values)
