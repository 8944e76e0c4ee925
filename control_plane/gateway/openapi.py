"""The document of the HTTP API, as OpenAPI 3.1 has it: made of the routes and of the tables that check bodies."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Protocol

from control_plane.gateway.schema import answers
from control_plane.gateway.schema.operation import JSON_TYPE, Operation


class Described(Protocol):
    """A route, as far as the document goes."""

    @property
    def public(self) -> bool: ...

    @property
    def operations(self) -> Mapping[bytes, Operation]: ...


def document(routes: Iterable[tuple[str, Described]]) -> bytes:
    """The document, as JSON; each route with its path, whose parameters are in braces."""
    paths: dict[str, dict[str, Any]] = {}
    for path, route in routes:
        for method, operation in route.operations.items():
            if method != b"HEAD":
                described = operation.described(public=route.public, posted=method == b"POST")
                paths.setdefault(path, {})[method.decode().lower()] = described
    found = {
        "openapi": "3.1.0",
        "info": {"title": "InferDeck", "version": _version(), "description": "The OpenAI API, served by InferDeck."},
        "paths": paths,
        "components": {
            "responses": {
                "Error": {"description": "What is wrong.", "content": {JSON_TYPE: {"schema": answers.ERROR}}}
            },
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }
    return json.dumps(found, separators=(",", ":")).encode()


def _version() -> str:
    try:
        return version("inferdeck")
    except PackageNotFoundError:
        return "0"
