"""The caller's trace context (W3C), as it was sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_BYTES: Final = 55
"""Version 00, trace id, parent id and flags in hexadecimal."""


def traceparent_of(fields: Mapping[bytes, bytes]) -> str:
    """Of a request's header fields, where it can be one: whoever follows it checks it."""
    sent = fields.get(b"traceparent", b"")
    return sent.decode("ascii", "replace") if len(sent) == _BYTES else ""
