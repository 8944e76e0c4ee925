"""One request and its response on a connection."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Protocol

from control_plane.contracts.errors import InferDeckError
from control_plane.gateway.error_body import error_body, error_headers

JSON = b"application/json"
CLIENT_GONE = 499

_STATUS_LINES = {status.value: b"HTTP/1.1 %d %b\r\n" % (status.value, status.phrase.encode()) for status in HTTPStatus}
_STATUS_LINES[CLIENT_GONE] = b"HTTP/1.1 499 Client Closed Request\r\n"
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Line(Protocol):
    """The connection, as far as an exchange goes."""

    def write(self, data: bytes) -> None: ...

    def common_headers(self, exchange: Exchange) -> bytes:
        """Header lines that every response has."""
        ...

    def release(self, exchange: Exchange) -> None:
        """The exchange's body is no longer held."""
        ...

    def done(self, exchange: Exchange) -> None:
        """The response is whole."""
        ...

    def abort(self) -> None: ...


class Exchange:
    """What came in, and the way out.

    A response is either ``respond``, or ``begin``, any number of ``send`` and ``finish``. Writes go to the kernel in
    the same turn of the loop. While ``paused`` the client reads slower than we write: hold back until ``on_drained``.
    ``unread`` says why no more of the body is kept; ``refusal`` what the connection answers to a request that broke the
    protocol. ``on_gone`` is called once if the client leaves before the response is whole; what is written after that
    is dropped. ``status`` is 0 until the response begins, and 499 in the end for a client that left; ``refused`` is the
    error that the answer is, or ended in.

    ``limits`` and ``common`` are header lines, each ended by CRLF, that the response has whatever it is. They,
    ``route``, ``grant``, ``request_id`` and the ``auth_s`` it took belong to the application.
    """

    __slots__ = (
        "_body",
        "_line",
        "arrival_mono",
        "arrival_unix",
        "auth_s",
        "chunked",
        "common",
        "complete",
        "content_length",
        "ended",
        "fields",
        "fresh",
        "grant",
        "keep_alive",
        "limits",
        "method",
        "on_drained",
        "on_gone",
        "paused",
        "received",
        "refusal",
        "refused",
        "request_id",
        "route",
        "status",
        "taken",
        "target",
        "unread",
    )

    def __init__(
        self,
        line: Line,
        method: bytes,
        target: bytes,
        fields: dict[bytes, bytes],
        arrival_unix: float,
        arrival_mono: float,
    ) -> None:
        self._line = line
        self.method = method
        self.target = target
        self.fields = fields
        self.arrival_unix = arrival_unix
        self.arrival_mono = arrival_mono
        self.content_length: int | None = None
        self._body: bytes | bytearray = b""
        self.received = 0
        self.complete = False
        self.unread: InferDeckError | None = None
        self.refusal: InferDeckError | None = None
        self.fresh = True
        self.chunked = True
        self.keep_alive = True
        self.paused = False
        self.status = 0
        self.refused: InferDeckError | None = None
        self.ended = False
        self.on_gone: Callable[[], None] | None = None
        self.on_drained: Callable[[], None] | None = None
        self.taken = False
        self.route: Any = None
        self.grant: Any = None
        self.limits = b""
        self.request_id = ""
        self.auth_s = 0.0
        self.common = b""

    @property
    def body(self) -> bytes | bytearray:
        """The whole body, for those who only look; it is held, and counted as held, until it is taken."""
        return self._body

    def take_body(self) -> bytes:
        """The whole body; it is let go of here."""
        body, self._body = self._body, b""
        self._line.release(self)
        return bytes(body)

    def add_body(self, data: bytes) -> None:
        """The next piece of the body; called by the connection."""
        if not self._body:
            self._body = data
        elif isinstance(self._body, bytearray):
            self._body += data
        else:
            # A client may send it in single bytes: what is kept must cost no more for that.
            self._body = bytearray(self._body) + data

    def welcome_body(self) -> None:
        """Tell a client that waits for it (``Expect: 100-continue``) to send the body."""
        if self.fields.get(b"expect", b"").lower() == b"100-continue":
            del self.fields[b"expect"]
            self._line.write(_CONTINUE)

    def respond(self, status: int, body: bytes, *, content_type: bytes = JSON, headers: bytes = b"") -> None:
        """The whole response at once. ``headers`` are lines, each ended by CRLF."""
        if self.ended:
            return
        self.status = status
        head = self._head(status, b"content-type: %b\r\ncontent-length: %d\r\n%b" % (content_type, len(body), headers))
        self._line.write(head if self.method == b"HEAD" else head + body)
        self._end()

    def respond_empty(self, headers: bytes) -> None:
        """A response that has nothing to say but its headers (204)."""
        if self.ended:
            return
        self.status = 204
        self._line.write(self._head(204, headers))
        self._end()

    def refuse(self, error: InferDeckError, headers: bytes = b"") -> None:
        """The whole response to a request that failed before its response began."""
        self.refused = error
        self.respond(error.status.http, error_body(error), headers=error_headers(error) + headers)

    def begin(self, status: int, headers: bytes, payload: bytes) -> None:
        """Start a streamed response with its first piece, which may be empty, in one write."""
        if self.ended:
            return
        self.status = status
        if self.chunked:
            framing = b"transfer-encoding: chunked\r\n"
        else:
            # HTTP/1.0: the body ends with the connection.
            self.keep_alive = False
            framing = b""
        self._line.write(self._head(status, framing + headers) + self._frame(payload))

    def send(self, payload: bytes) -> None:
        """The next piece; an empty one is none."""
        if not self.ended:
            self._line.write(self._frame(payload))

    def finish(self, payload: bytes = b"") -> None:
        """The last piece, which may be empty, and the end of a streamed response."""
        if self.ended:
            return
        data = self._frame(payload)
        self._line.write(data + b"0\r\n\r\n" if self.chunked else data)
        self._end()

    def abort(self) -> None:
        """Drop the client: what is still unsent is thrown away."""
        self._line.abort()

    def gone(self) -> None:
        """The connection is lost; called by it."""
        if self.ended:
            return
        self.ended = True
        self.status = CLIENT_GONE
        if self.on_gone is not None:
            self.on_gone()
        self._let_go()

    def _frame(self, payload: bytes) -> bytes:
        # A chunk of no bytes would be the end of the body.
        return b"%x\r\n%b\r\n" % (len(payload), payload) if self.chunked and payload else payload

    def _head(self, status: int, headers: bytes) -> bytes:
        identifier = b"x-request-id: %b\r\n" % self.request_id.encode() if self.request_id else b""
        common = self._line.common_headers(self)
        own = self.common + self.limits
        return b"%b%b%b%b%b\r\n" % (_STATUS_LINES[status], common, identifier, own, headers)

    def _end(self) -> None:
        self.ended = True
        self._let_go()
        self._line.done(self)

    def _let_go(self) -> None:
        self._line.release(self)
        self._body = b""
        self.on_gone = self.on_drained = None
