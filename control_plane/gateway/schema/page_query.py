"""The query of a list: which part of it, in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from control_plane.gateway.schema.values import integer, invalid, one_of, string, wrong_type

_limit = integer(1, 100)
_after = string(64, may_be_empty=False)

_INCLUDABLE = (
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


@dataclass(frozen=True, slots=True)
class PageQuery:
    order: Literal["asc", "desc"] = "desc"
    after: str = ""
    limit: int = 20


def read_page_query(query: Sequence[tuple[str, str]]) -> PageQuery:
    """Raises InvalidRequest."""
    order, after, limit = "desc", "", 20
    for name, value in query:
        if name == "order":
            order = one_of(name, value, ("asc", "desc"))
        elif name == "after":
            after = _after(name, value)
        elif name == "limit":
            if not (value.isascii() and value.isdecimal() and len(value) < 10):
                raise wrong_type(name, "an integer", value)
            limit = _limit(name, int(value))
        else:
            read_include([(name, value)])
    return PageQuery("asc" if order == "asc" else "desc", after, limit)


def read_include(query: Sequence[tuple[str, str]]) -> None:
    """The query of a single item. Raises InvalidRequest."""
    for name, value in query:
        if name not in ("include", "include[]"):
            raise invalid(name[:64], f"Unknown parameter: '{name[:64]}'.", "unknown_parameter")
        one_of("include", value, _INCLUDABLE)
