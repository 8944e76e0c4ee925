"""Routes, and the order in which a request is checked.

Route (404, 405) → key (401) → media type (415) → size (413) → JSON → schema → model → whatever the call itself needs.
Each check needs no more of the request than the ones before it, so a caller without a key costs a head and a digest.
"""

from __future__ import annotations

import logging
import math
import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from control_plane.contracts.call import Router
from control_plane.contracts.errors import (
    InferDeckError,
    InternalError,
    MethodNotAllowed,
    NotFound,
    Unauthenticated,
    UnsupportedMediaType,
)
from control_plane.contracts.fleet import ModelView
from control_plane.contracts.grant import Grant
from control_plane.contracts.model_routes import ModelRoutes
from control_plane.gateway.api import CHAT, COMPLETIONS, RESPONSES
from control_plane.gateway.auth import KeyGate
from control_plane.gateway.cors import Cors
from control_plane.gateway.desk import Desk
from control_plane.gateway.errand import Errands
from control_plane.gateway.figures import Figures
from control_plane.gateway.history import operations
from control_plane.gateway.history.conversations_api import ConversationsApi
from control_plane.gateway.history.responses_api import ResponsesApi
from control_plane.gateway.history.store_door import StoreDoor
from control_plane.gateway.http.exchange import CLIENT_GONE, Exchange
from control_plane.gateway.http.target import path_of, segments_of
from control_plane.gateway.metrics_api import METRICS_TYPE, metrics_text
from control_plane.gateway.models_api import list_models, show_model
from control_plane.gateway.openapi import DOCUMENT, document
from control_plane.gateway.route_api import RouteApi
from control_plane.gateway.schema import answers
from control_plane.gateway.schema.generation import CHAT as CHAT_TABLE
from control_plane.gateway.schema.generation import COMPLETION as COMPLETION_TABLE
from control_plane.gateway.schema.operation import EVENTS_TYPE, GENERATION_ERRORS, JSON_TYPE, READ_ERRORS, Operation
from control_plane.gateway.tokenize_api import TokenizeApi

log = logging.getLogger(__name__)

_REQUEST_ID = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_TELL_S = 10.0

_CHAT = Operation(
    "The next message of a conversation.",
    {JSON_TYPE: answers.CHAT_COMPLETION, EVENTS_TYPE: answers.EVENTS},
    CHAT_TABLE,
    GENERATION_ERRORS,
    example={"model": "MODEL", "messages": [{"role": "user", "content": "Hello."}]},
)
_COMPLETIONS = Operation(
    "What comes after a prompt.",
    {JSON_TYPE: answers.COMPLETION, EVENTS_TYPE: answers.EVENTS},
    COMPLETION_TABLE,
    GENERATION_ERRORS,
    example={"model": "MODEL", "prompt": "Hello."},
)
_MODELS = Operation(
    "Every model, whether or not a worker of it is up, and every name that leads to models.",
    {JSON_TYPE: answers.MODELS},
)
_ONE_MODEL = Operation(
    "One model.",
    {JSON_TYPE: answers.MODEL},
    errors=(*READ_ERRORS, 404),
    path={"model": {"type": "string", "minLength": 1}},
)
_HEALTH = Operation("Whether the process lives.", {JSON_TYPE: answers.STATUS})
_READY = Operation("Whether a worker can be picked.", {JSON_TYPE: answers.STATUS}, other={503: answers.STATUS})
_METRICS = Operation("Prometheus metrics, of the models that the key may call.", {"text/plain": answers.TEXT})
_PREFLIGHT = Operation("What a page of another origin may send.", {})


@dataclass(frozen=True, slots=True)
class Route:
    """``name`` is what metrics and logs call it, ``operations`` its methods; a private route wants a key. What is
    posted is JSON."""

    name: str
    operations: Mapping[bytes, Operation]
    handle: Callable[[Exchange], None]
    public: bool = False


class GatewayApp:
    """Answers exchanges. ``started_unix`` stands for when models were created."""

    def __init__(
        self,
        router: Router,
        gate: KeyGate,
        desk: Desk,
        figures: Figures,
        registry: CollectorRegistry,
        started_unix: float,
        cors: Cors | None = None,
    ) -> None:
        self._router = router
        self._gate = gate
        self._desk = desk
        self._figures = figures
        self._registry = registry
        self._started = int(started_unix)
        self._cors = cors or Cors(())
        self._strangers = 0
        self._told_at = -math.inf
        self.closing = False
        errands = Errands(desk.lanes, desk.limiter, desk.refuse)
        door, tokens = StoreDoor(desk.history, errands), TokenizeApi(router, desk.prompts, errands, desk.wait_s)
        kept, responses = ConversationsApi(door), ResponsesApi(door)
        self._routes = {
            b"/v1/chat/completions": Route("chat", {b"POST": _CHAT}, lambda exchange: desk.take(exchange, CHAT)),
            b"/v1/completions": Route(
                "completions", {b"POST": _COMPLETIONS}, lambda exchange: desk.take(exchange, COMPLETIONS)
            ),
            b"/v1/models": Route("models", _read(_MODELS), self._models),
            b"/health": Route("health", _read(_HEALTH), self._health, public=True),
            b"/ready": Route("ready", _read(_READY), self._ready, public=True),
            b"/metrics": Route("metrics", _read(_METRICS), self._metrics),
            b"/openapi.json": Route("openapi", _read(DOCUMENT), self._openapi, public=True),
            b"/v1/responses": Route(
                "responses", {b"POST": operations.RESPONSE}, lambda exchange: desk.take(exchange, RESPONSES)
            ),
            b"/tokenize": Route("tokenize", {b"POST": operations.TOKENIZE}, tokens.tokenize),
            b"/detokenize": Route("tokenize", {b"POST": operations.DETOKENIZE}, tokens.detokenize),
            b"/v1/route": Route("route", {b"POST": operations.ROUTE}, RouteApi(router, errands).route),
            b"/v1/conversations": Route(
                "conversations",
                {b"GET": operations.LIST_CONVERSATIONS, b"POST": operations.MAKE_CONVERSATION},
                kept.all,
            ),
        }
        response, conversation = "/v1/responses/{response_id}", "/v1/conversations/{conversation_id}"
        named = {
            "/v1/models/{model}": Route("models", _read(_ONE_MODEL), self._one_model),
            response: Route(
                "responses",
                {b"GET": operations.READ_RESPONSE, b"DELETE": operations.DELETE_RESPONSE},
                responses.one,
            ),
            f"{response}/cancel": Route("responses", {b"POST": operations.CANCEL_RESPONSE}, responses.cancel),
            f"{response}/input_items": Route("responses", {b"GET": operations.LIST_INPUT}, responses.input_items),
            conversation: Route(
                "conversations",
                {
                    b"GET": operations.READ_CONVERSATION,
                    b"POST": operations.CHANGE_CONVERSATION,
                    b"DELETE": operations.DELETE_CONVERSATION,
                },
                kept.one,
            ),
            f"{conversation}/items": Route(
                "conversations", {b"GET": operations.LIST_ITEMS, b"POST": operations.ADD_ITEMS}, kept.items
            ),
            f"{conversation}/items/{{item_id}}": Route(
                "conversations", {b"GET": operations.READ_ITEM, b"DELETE": operations.DELETE_ITEM}, kept.item
            ),
        }
        # Each "*" is a name, whatever it is.
        self._named = {
            tuple(b"*" if part.startswith("{") else part.encode() for part in path.split("/")[1:]): route
            for path, route in named.items()
        }
        self._described = [*((path.decode(), route) for path, route in self._routes.items()), *named.items()]
        self._document = document(self.routes())

    def routes(self) -> list[tuple[str, Route]]:
        """Every route with its path, whose parameters are in braces."""
        return self._described

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
        path = path_of(exchange.target)
        route = self._routes.get(path) or self._find_named(path)
        if route is None:
            raise NotFound("There is nothing at this URL.", code="unknown_url")
        if (preflight := self._cors.preflight(exchange.method, exchange.fields, tuple(route.operations))) is not None:
            answer = lambda asked: asked.respond_empty(preflight)  # noqa: E731
            return Route("preflight", {exchange.method: _PREFLIGHT}, answer, public=True)
        if exchange.method not in route.operations:
            raise MethodNotAllowed(
                f"Only {' and '.join(method.decode() for method in route.operations)} is allowed here.",
                hint=", ".join(method.decode() for method in route.operations),
            )
        return route

    def _find_named(self, path: bytes) -> Route | None:
        parts = path.split(b"/")[1:]
        if len(parts) < 3 or not parts[2]:
            return None
        shape = [*parts[:2], b"*", *parts[3:]]
        if len(parts) == 5 and parts[4]:
            shape[4] = b"*"
        # A model's name may hold slashes.
        return self._named.get(tuple(shape[:3] if parts[1] == b"models" else shape))

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

    # routes

    def _models(self, exchange: Exchange) -> None:
        exchange.respond(200, list_models(*self._models_for(exchange), self._started))

    def _one_model(self, exchange: Exchange) -> None:
        name = "/".join(segments_of(exchange.target)[2:])
        exchange.respond(200, show_model(*self._models_for(exchange), name, self._started))

    def _models_for(self, exchange: Exchange) -> tuple[Sequence[ModelView], ModelRoutes, Callable[[str], bool]]:
        return self._router.models(), self._router.routes() or ModelRoutes(), exchange.grant.allows

    def _openapi(self, exchange: Exchange) -> None:
        exchange.respond(200, self._document)

    def _health(self, exchange: Exchange) -> None:
        exchange.respond(200, b'{"status":"ok"}')

    def _ready(self, exchange: Exchange) -> None:
        if self.closing:
            exchange.respond(503, b'{"status":"stopping"}', headers=b"retry-after: 5\r\n")
        elif self._router.ready():
            exchange.respond(200, b'{"status":"ready"}')
        else:
            exchange.respond(503, b'{"status":"no worker"}', headers=b"retry-after: 5\r\n")

    def _metrics(self, exchange: Exchange) -> None:
        exchange.respond(200, metrics_text(self._registry, exchange.grant), content_type=METRICS_TYPE)


def _read(operation: Operation) -> dict[bytes, Operation]:
    return {b"GET": operation, b"HEAD": operation}


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
