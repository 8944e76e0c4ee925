"""What a route says of itself in the document of the API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from control_plane.gateway.schema.query import Query
from control_plane.gateway.schema.table import Table
from control_plane.gateway.schema.values import Schema

JSON_TYPE = "application/json"
EVENTS_TYPE = "text/event-stream"

READ_ERRORS = (408, 431)
POST_ERRORS = (400, 408, 413, 415, 431, 503)
ERRAND_ERRORS = (400, 404, 408, 429, 431, 503)
"""Of what is counted as a request and generates nothing."""

GENERATION_ERRORS = (400, 403, 404, 408, 413, 415, 429, 431, 499, 500, 502, 503)


@dataclass(frozen=True, slots=True)
class Operation:
    """What one method of a route does. ``body`` is what a POST takes, None: it is not looked at; ``example`` is one;
    ``answer`` the schemas of a success by media type; ``errors`` the statuses of
    failures, 401 apart, which every route that wants a key has; ``other`` those with a body of their own schema;
    ``path`` the schemas of the parameters of its path, ``query`` those of its query."""

    summary: str
    answer: Mapping[str, Schema]
    body: Table | None = None
    errors: tuple[int, ...] = READ_ERRORS
    other: Mapping[int, Schema] = field(default_factory=dict)
    path: Mapping[str, Schema] = field(default_factory=dict)
    example: Any = None
    query: Query | None = None

    def described(self, *, public: bool, posted: bool = False) -> dict[str, Any]:
        """The operation as OpenAPI 3.1 has it."""
        errors = {*self.errors, *(() if public else (401, 503))} - self.other.keys()
        responses = {
            "200": _response(self.answer),
            **{str(status): {"$ref": "#/components/responses/Error"} for status in sorted(errors)},
            **{str(status): _response({JSON_TYPE: schema}) for status, schema in self.other.items()},
        }
        found: dict[str, Any] = {
            "summary": self.summary,
            "responses": responses,
            "security": [] if public else [{"key": []}],
        }
        parameters = [
            {"name": name, "in": "path", "required": True, "schema": schema} for name, schema in self.path.items()
        ]
        parameters += self.query.parameters() if self.query is not None else []
        if parameters:
            found["parameters"] = parameters
        if self.body is not None:
            example = {} if self.example is None else {"example": self.example}
            found["requestBody"] = {
                "required": True,
                "content": {JSON_TYPE: {"schema": self.body.schema(), **example}},
            }
        elif posted:
            found["requestBody"] = {"required": False, "content": {JSON_TYPE: {"schema": {}}}}
        return found


def _response(contents: Mapping[str, Schema]) -> dict[str, Any]:
    return {
        "description": "The answer.",
        "content": {media: {"schema": schema} for media, schema in contents.items()},
    }
