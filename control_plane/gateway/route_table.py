"""Every route of the gateway, and the document that they make."""

from __future__ import annotations

from functools import partial

from control_plane.gateway import operations
from control_plane.gateway.api import CHAT, COMPLETIONS, RESPONSES, Api
from control_plane.gateway.desk import Desk
from control_plane.gateway.errand import Errands
from control_plane.gateway.history.conversations_api import ConversationsApi
from control_plane.gateway.history.responses_api import ResponsesApi
from control_plane.gateway.history.store_door import StoreDoor
from control_plane.gateway.http.exchange import Exchange
from control_plane.gateway.intake import take
from control_plane.gateway.openapi import document
from control_plane.gateway.pages import Pages
from control_plane.gateway.route_api import RouteApi
from control_plane.gateway.routes import Route, Routes
from control_plane.gateway.schema.operation import Operation
from control_plane.gateway.tokenize_api import TokenizeApi


def route_table(desk: Desk, pages: Pages) -> Routes:
    """The document is among the routes, and tells of itself too."""
    text = b""

    def tell(exchange: Exchange) -> None:
        exchange.respond(200, text)

    routes = {**_generation(desk), **_pages(pages), **_errands(desk)}
    routes["/openapi.json"] = Route("openapi", _read(operations.DOCUMENT), tell, public=True)
    text = document(routes.items())
    return Routes(routes)


def _generation(desk: Desk) -> dict[str, Route]:
    def route(name: str, operation: Operation, api: Api) -> Route:
        return Route(name, {b"POST": operation}, partial(take, desk, api=api))

    return {
        "/v1/chat/completions": route("chat", operations.CHAT, CHAT),
        "/v1/completions": route("completions", operations.COMPLETION, COMPLETIONS),
        "/v1/responses": route("responses", operations.RESPONSE, RESPONSES),
    }


def _pages(pages: Pages) -> dict[str, Route]:
    return {
        "/v1/models": Route("models", _read(operations.LIST_MODELS), pages.models),
        "/v1/models/{model}": Route("models", _read(operations.READ_MODEL), pages.one_model),
        "/health": Route("health", _read(operations.HEALTH), pages.health, public=True),
        "/ready": Route("ready", _read(operations.READY), pages.ready, public=True),
        "/metrics": Route("metrics", _read(operations.METRICS), pages.metrics),
    }


def _errands(desk: Desk) -> dict[str, Route]:
    errands = Errands(desk.lanes, desk.limiter, desk.refuse)
    door = StoreDoor(desk.history, errands)
    kept, responses = ConversationsApi(door), ResponsesApi(door)
    tokens = TokenizeApi(desk.router, desk.prompts, errands, desk.wait_s)
    response, conversation = "/v1/responses/{response_id}", "/v1/conversations/{conversation_id}"
    return {
        "/tokenize": Route("tokenize", {b"POST": operations.TOKENIZE}, tokens.tokenize),
        "/detokenize": Route("tokenize", {b"POST": operations.DETOKENIZE}, tokens.detokenize),
        "/v1/route": Route("route", {b"POST": operations.ROUTE}, RouteApi(desk.router, errands).route),
        response: Route(
            "responses",
            {b"GET": operations.READ_RESPONSE, b"DELETE": operations.DELETE_RESPONSE},
            responses.one,
        ),
        f"{response}/cancel": Route("responses", {b"POST": operations.CANCEL_RESPONSE}, responses.cancel),
        f"{response}/input_items": Route("responses", {b"GET": operations.LIST_INPUT}, responses.input_items),
        "/v1/conversations": Route(
            "conversations",
            {b"GET": operations.LIST_CONVERSATIONS, b"POST": operations.MAKE_CONVERSATION},
            kept.all,
        ),
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


def _read(operation: Operation) -> dict[bytes, Operation]:
    return {b"GET": operation, b"HEAD": operation}
