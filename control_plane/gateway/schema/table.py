"""The parameters of one route, in one table: what checks a body, and what the document of the API says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from control_plane.contracts.errors import InvalidRequest
from control_plane.gateway.schema.values import Field, invalid, missing, wrong_type

_TEMPLATES = frozenset(("chat_template", "chat_template_kwargs"))


@dataclass(frozen=True, slots=True)
class Table:
    """Null means absent, for every parameter that is not required.

    ``neutral`` are parameters that others serve and this server does not, each with the values that ask for nothing
    (``"store": false``). Those are taken; any other value of them is refused by name, and so is a name nobody knows.
    """

    fields: Mapping[str, Field]
    required: tuple[str, ...] = ()
    neutral: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    def read(self, body: dict[str, Any]) -> dict[str, Any]:
        """The values that are there and not null, each as its field reads it. Raises InvalidRequest."""
        values = {}
        for name, value in body.items():
            known = self.fields.get(name)
            if known is None:
                self._refuse(name, value)
            elif value is not None:
                values[name] = known.read(name, value)
            elif name == "model" and name in self.required:
                raise wrong_type(name, "a string", value)
        for name in self.required:
            if name not in values:
                raise missing(name)
        return values

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of a body."""
        properties: dict[str, Any] = {}
        for name, known in self.fields.items():
            about = {"description": known.about} if known.about else {}
            taken = known.schema if name in self.required else {"anyOf": [known.schema, {"type": "null"}]}
            properties[name] = {**taken, **about}
        for name, values in self.neutral.items():
            properties[name] = {"enum": [None, *values], "description": "Not served: taken where it asks for nothing."}
        return {
            "type": "object",
            "properties": dict(sorted(properties.items())),
            "required": list(self.required),
            "additionalProperties": False,
        }

    def _refuse(self, name: str, value: Any) -> None:
        if name in _TEMPLATES:
            raise invalid(
                "chat_template", "Chat templates come with the model, not with the request.", "unsupported_parameter"
            )
        if name in self.neutral:
            # True is 1 and 0 is False only for Python.
            neutral = self.neutral[name]
            if value is None or any(type(value) is type(nothing) and value == nothing for nothing in neutral):
                return
            raise invalid(
                name, f"Unsupported parameter: '{name}' is not supported by this server.", "unsupported_parameter"
            )
        short = name[:64]
        raise InvalidRequest(f"Unrecognized request argument supplied: {short}", param=short, code="unknown_parameter")
