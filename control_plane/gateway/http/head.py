"""What is read of a request's head, and what makes one that cannot be served."""

from __future__ import annotations

from control_plane.contracts.errors import HeadersTooLarge, InferDeckError, InvalidRequest, TooLarge
from control_plane.gateway.http.limits import ConnectionLimits

_READ_FIELDS = frozenset(
    (
        b"access-control-request-headers",
        b"access-control-request-method",
        b"authorization",
        b"connection",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"expect",
        b"host",
        b"origin",
        b"traceparent",
        b"transfer-encoding",
        b"x-inferdeck-model",
        b"x-request-id",
    )
)
_OFFER = (b"upgrade", b"http2-settings")


class Head:
    """A request's head as it comes. The fields after a chunked body (trailers) count as if they were of it."""

    __slots__ = ("_count", "_limits", "fields", "size", "target")

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._count = 0
        self.size = 0
        self.target = b""
        self.fields: dict[bytes, bytes] = {}

    def add(self, name: bytes, value: bytes, *, trailing: bool) -> InferDeckError | None:
        """Take the next field; what is wrong with it, if anything."""
        self._count += 1
        self.size += len(name) + len(value)
        if self._count > self._limits.fields or self.size > self._limits.head_bytes:
            return too_large()
        name = name.lower()
        if trailing or name not in _READ_FIELDS:
            return None
        if name in self.fields:
            # No field that matters here may come twice, save the one that HTTP lets be a list, and the one that is
            # nothing then.
            if name not in (b"connection", b"traceparent"):
                return InvalidRequest(f"The {name.decode()} header is sent twice.")
            value = self.fields[name] + b"," + value
        self.fields[name] = value
        return None

    def objection(self, version: str) -> InferDeckError | None:
        """Why a head that is whole is none that can be served here."""
        if self.size + len(self.target) > self._limits.head_bytes:
            return too_large()
        if version == "1.1":
            if b"host" not in self.fields:
                return InvalidRequest("The Host header is missing.")
        elif version != "1.0":
            return InvalidRequest("Only HTTP/1.1 and HTTP/1.0 are spoken here.")
        coding = self.fields.get(b"transfer-encoding")
        if coding is not None and (coding.lower() != b"chunked" or version == "1.0"):
            return InvalidRequest("The only Transfer-Encoding that is read is chunked, over HTTP/1.1.")
        return None


def too_large() -> HeadersTooLarge:
    return HeadersTooLarge("The request's headers are too large or too many.")


def body_too_large(limits: ConnectionLimits) -> TooLarge:
    return TooLarge(f"The request body is larger than {limits.body_bytes} bytes.")


def without_offer(method: bytes, target: bytes, version: str, fields: dict[bytes, bytes]) -> bytes:
    """The head of the same request as if it had not offered another protocol."""
    fields = dict(fields)
    options = fields.pop(b"connection", b"").split(b",")
    if kept := [option for option in options if option.strip().lower() not in _OFFER]:
        fields[b"connection"] = b",".join(kept)
    lines = b"".join(b"%b: %b\r\n" % field for field in fields.items())
    return b"%b %b HTTP/%b\r\n%b\r\n" % (method, target, version.encode(), lines)
