"""The parameters of a route's query, in one table: what checks a query, and what the document of the API says of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from control_plane.gateway.schema.values import Schema, invalid


@dataclass(frozen=True, slots=True)
class QueryField:
    """One parameter: ``read`` takes its name and its text, and gives the value or OpenAI's error. ``written``: how it
    may be spelled, where that is not as it is called."""

    read: Callable[[str, str], Any]
    schema: Schema
    about: str = ""
    written: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Query:
    """A name that nobody knows is refused; of one that comes twice the last value counts, and all are checked."""

    fields: Mapping[str, QueryField]

    def read(self, query: Sequence[tuple[str, str]]) -> dict[str, Any]:
        """The values that are there. Raises InvalidRequest."""
        values = {}
        for written, text in query:
            name = self._name(written)
            values[name] = self.fields[name].read(name, text)
        return values

    def parameters(self) -> list[dict[str, Any]]:
        """As OpenAPI has them."""
        return [
            {"name": name, "in": "query", "required": False, "schema": field.schema, "description": field.about}
            for name, field in self.fields.items()
        ]

    def _name(self, written: str) -> str:
        for name, field in self.fields.items():
            if written in (field.written or (name,)):
                return name
        raise invalid(written[:64], f"Unknown parameter: '{written[:64]}'.", "unknown_parameter")
