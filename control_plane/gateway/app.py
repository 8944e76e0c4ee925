"""The order in which a request is checked.

Route (404, 405) → key (401) → media type (415) → size (413) → JSON → schema → model → whatever the call itself needs.
Each check needs no more of the request than the ones before it, so a caller without a key costs a head and a digest.
"""

from __future__ import annotations

import logging
import math
import random
import re
import time

from control_plane.contracts.errors import (
    InferDeckError,
    InternalError,
    MethodNotAllowed,
    NotFound,
    Unauthenticated,
    UnsupportedMediaType,
)
from control_plane.contracts.grant import Grant
from control_plane.gateway.auth import KeyGate
from control_plane.gateway.cors import Cors
from control_plane.gateway.desk import Desk
from control_plane.gateway.figures import Figures
from control_plane.gateway.http.exchange import CLIENT_GONE, Exchange
from control_plane.gateway.http.target import path_of
from control_plane.gateway.operations import PREFLIGHT
from control_plane.gateway.routes import Route, Routes

log = logging.getLogger(__name__)

_REQUEST_ID = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_TELL_S = 10.0


class GatewayApp:
    """Answers exchanges."""

    def __init__(self, routes: Routes, gate: KeyGate, desk: Desk, figures: Figures, cors: Cors) -> None:
        self._routes = routes
        self._gate = gate
        self._desk = desk
        self._figures = figures
        self._cors = cors
        self._strangers = 0
        self._told_at = -math.inf

    # the connection's side

    def advance(self, exchange: Exchange) -> None:
        if exchange.ended or exchange.taken:
            return
        try:
            if exchange.route is None:
                exchange.request_id = _identify(exchange)
                exchange.common = self._cors.lines(exchange.fields)
                exchange.route = self._find(exchange)
            if exchange.grant is None and not self._admit(exchange):
                return
            if exchange.unread is not None:
                raise exchange.unread
            if not exchange.complete:
                exchange.welcome_body()
                return
            exchange.taken = True
            route: Route = exchange.route
            route.handle(exchange)
        except InferDeckError as error:
            self._refuse(exchange, error)
        except Exception:
            log.exception("a request could not be handled", extra={"request_id": exchange.request_id})
            self._refuse(exchange, InternalError("The request could not be handled."))

    def ended(self, exchange: Exchange) -> None:
        route = exchange.route.name if exchange.route is not None else "other"
        self._figures.responses[route, exchange.status] += 1
        if exchange.refused is not None:
            self._figures.rejections[exchange.refused.reason] += 1
            if isinstance(exchange.refused, Unauthenticated):
                self._tell_of_strangers()
        level = _level(exchange)
        if log.isEnabledFor(level):
            log.log(
                level,
                "client left" if exchange.status == CLIENT_GONE else "answered",
                extra={
                    "request_id": exchange.request_id,
                    "route": route,
                    "status": exchange.status,
                    "reason": str(exchange.refused.reason) if exchange.refused is not None else "",
                    "key_id": exchange.grant.key_id if exchange.grant is not None else "",
                    "seconds": round(time.monotonic() - exchange.arrival_mono, 4),
                },
            )

    def _tell_of_strangers(self) -> None:
        """Callers without a valid key are told of together: there is no end to them, and a log has one."""
        self._strangers += 1
        now = time.monotonic()
        if now - self._told_at >= _TELL_S:
            log.info("requests without a valid key were refused", extra={"requests": self._strangers})
            self._told_at, self._strangers = now, 0

    # checks

    def _find(self, exchange: Exchange) -> Route:
        route = self._routes.find(path_of(exchange.target))
        if route is None:
            raise NotFound("There is nothing at this URL.", code="unknown_url")
        if (preflight := self._cors.preflight(exchange.method, exchange.fields, tuple(route.operations))) is not None:
            answer = lambda asked: asked.respond_empty(preflight)  # noqa: E731
            return Route("preflight", {exchange.method: PREFLIGHT}, answer, public=True)
        if exchange.method not in route.operations:
            raise MethodNotAllowed(
                f"Only {' and '.join(method.decode() for method in route.operations)} is allowed here.",
                hint=", ".join(method.decode() for method in route.operations),
            )
        return route

    def _admit(self, exchange: Exchange) -> bool:
        """Whether the checks that need only the head are passed; False while the key is looked up."""
        route: Route = exchange.route
        if route.public:
            exchange.grant = _NO_KEY
        else:
            grant = self._gate.check(exchange.fields.get(b"authorization"), lambda: self.advance(exchange))
            if grant is None:
                return False
            exchange.grant = grant
        exchange.auth_s = time.monotonic() - exchange.arrival_mono
        if exchange.method == b"POST":
            _check_media_type(exchange)
        return True

    def _refuse(self, exchange: Exchange, error: InferDeckError) -> None:
        exchange.taken = True
        if exchange.ended:
            return
        allow = b""
        if isinstance(error, MethodNotAllowed):
            allow = b"allow: %b\r\n" % error.hint.encode()
        route: Route | None = exchange.route
        if route is not None and exchange.method == b"POST":
            self._desk.refuse(exchange, error, allow)
        else:
            exchange.refuse(error, allow)


_NO_KEY = Grant("")
"""Of a request that needs none."""


def _level(exchange: Exchange) -> int:
    """What went well is told to those who debug, and so are probes; what failed for a caller's sake to everyone."""
    if exchange.status < 400 or exchange.status == 401 or (exchange.route is not None and exchange.route.public):
        return logging.DEBUG
    return logging.ERROR if exchange.status >= 500 and exchange.status != 503 else logging.INFO


def _identify(exchange: Exchange) -> str:
    """The caller's own request id where it is sound, one of ours otherwise."""
    given = exchange.fields.get(b"x-request-id")
    if given is None or _REQUEST_ID.fullmatch(given) is None:
        return f"req-{random.getrandbits(64):016x}"
    return given.decode()


def _check_media_type(exchange: Exchange) -> None:
    media_type = exchange.fields.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if media_type != b"application/json":
        raise UnsupportedMediaType("The Content-Type must be application/json.")
    if exchange.fields.get(b"content-encoding", b"identity").strip().lower() != b"identity":
        raise UnsupportedMediaType("No Content-Encoding is read here.")
