"""Web pages of other origins: none may call from a browser, unless the settings name their origin."""

from __future__ import annotations

import re
from typing import Final

_HEADER_NAMES: Final = re.compile(rb"[A-Za-z0-9!#$%&'*+.^_`|~-]+(\s*,\s*[A-Za-z0-9!#$%&'*+.^_`|~-]+){0,63}")
_SHOWN: Final = (
    b"x-request-id, retry-after, x-should-retry, x-ratelimit-limit-requests, x-ratelimit-limit-tokens, "
    b"x-ratelimit-remaining-requests, x-ratelimit-remaining-tokens, x-ratelimit-reset-requests, "
    b"x-ratelimit-reset-tokens, x-inferdeck-model, x-inferdeck-model-reason"
)
_KEPT_S: Final = 600


class Cors:
    """``origins`` are exact. Cookies play no part here, so credentials are never allowed, and no answer says ``*``."""

    def __init__(self, origins: tuple[str, ...]) -> None:
        self._origins = frozenset(origin.encode() for origin in origins)

    def lines(self, fields: dict[bytes, bytes]) -> bytes:
        """Header lines of every response to this request; without origins in the settings there are none."""
        if not self._origins:
            return b""
        origin = fields.get(b"origin")
        if origin is None or origin not in self._origins:
            return b"vary: origin\r\n"
        return b"vary: origin\r\naccess-control-allow-origin: %b\r\naccess-control-expose-headers: %b\r\n" % (
            origin,
            _SHOWN,
        )

    def preflight(self, method: bytes, fields: dict[bytes, bytes], allowed: tuple[bytes, ...]) -> bytes | None:
        """Header lines that answer a browser which asks before it calls; None where this is no such question."""
        if method != b"OPTIONS" or fields.get(b"origin") not in self._origins:
            return None
        if b"access-control-request-method" not in fields:
            return None
        names = fields.get(b"access-control-request-headers", b"").strip()
        headers = b"access-control-allow-headers: %b\r\n" % names if _HEADER_NAMES.fullmatch(names) else b""
        return b"access-control-allow-methods: %b\r\n%baccess-control-max-age: %d\r\n" % (
            b", ".join(allowed),
            headers,
            _KEPT_S,
        )
