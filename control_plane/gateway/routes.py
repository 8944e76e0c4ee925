"""Which path leads to which route."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from control_plane.gateway.http.exchange import Exchange
from control_plane.gateway.schema.operation import Operation

_ANY = b"*"
_MODELS = (b"v1", b"models", _ANY)


@dataclass(frozen=True, slots=True)
class Route:
    """``name`` is what metrics and logs call it, ``operations`` its methods; a private route wants a key. What is
    posted is JSON."""

    name: str
    operations: Mapping[bytes, Operation]
    handle: Callable[[Exchange], None]
    public: bool = False


class Routes:
    """``routes`` by their paths, whose third and fifth segments may be names, in braces. Of a model's path all the rest
    is its name, which may hold slashes."""

    def __init__(self, routes: Mapping[str, Route]) -> None:
        self._exact = {path.encode(): route for path, route in routes.items() if "{" not in path}
        self._named = {_shape(path): route for path, route in routes.items() if "{" in path}

    def find(self, path: bytes) -> Route | None:
        """``path`` as it was written in the request, without a query."""
        return self._exact.get(path) or self._find_named(path)

    def _find_named(self, path: bytes) -> Route | None:
        parts = path.split(b"/")[1:]
        if len(parts) < 3 or not parts[2]:
            return None
        shape = [*parts[:2], _ANY, *parts[3:]]
        if len(parts) == 5 and parts[4]:
            shape[4] = _ANY
        found = tuple(shape)
        return self._named.get(_MODELS if found[:3] == _MODELS else found)


def _shape(path: str) -> tuple[bytes, ...]:
    return tuple(_ANY if part.startswith("{") else part.encode() for part in path.split("/")[1:])
