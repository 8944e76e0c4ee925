"""What a request's target names: a path of segments, and a query."""

from __future__ import annotations

from urllib.parse import parse_qsl, unquote

from control_plane.contracts.errors import InvalidRequest

_MOST_FIELDS = 64


def path_of(target: bytes) -> bytes:
    """The path as it was written; a proxy's client may name scheme and host before it."""
    path = target.partition(b"?")[0]
    if path.startswith(b"http"):
        _, scheme, rest = path.partition(b"://")
        if scheme:
            return b"/" + rest.partition(b"/")[2]
    return path


def segments_of(target: bytes) -> list[str]:
    """The parts of the path between its slashes, unquoted: ``["v1", "models", "m"]``."""
    return [unquote(part.decode("latin-1")) for part in path_of(target).split(b"/")[1:]]


def query_of(target: bytes) -> list[tuple[str, str]]:
    """Names and values in their order. Raises InvalidRequest."""
    text = target.partition(b"?")[2].decode("latin-1")
    try:
        return parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict")
    except ValueError:
        raise InvalidRequest("The URL's query cannot be read.", code="invalid_query") from None
