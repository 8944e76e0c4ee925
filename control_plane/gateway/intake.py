"""Where a request for generation becomes a call."""

from __future__ import annotations

from control_plane.contracts.errors import Unavailable
from control_plane.gateway.api import Api
from control_plane.gateway.calls import Call
from control_plane.gateway.desk import Desk
from control_plane.gateway.http.exchange import Exchange
from control_plane.gateway.model_door import check_model, override_of
from control_plane.gateway.reading import read_body
from control_plane.gateway.schema.generation import Generation


def take(desk: Desk, exchange: Exchange, api: Api) -> None:
    """Start a call. Raises InferDeckError for a body that is none, or a model that the key may not call."""
    size = exchange.received

    def start(generation: Generation) -> None:
        check_model(desk.router, exchange.grant, generation.model, override_of(exchange))
        thread = generation.thread
        if thread is not None and (thread.kept or thread.continues) and desk.history is None:
            raise Unavailable("This gateway keeps no conversations.")
        generation.body_bytes = size
        Call(desk, exchange, generation, api).start()

    read_body(exchange, desk.lanes, api.read, start, desk.refuse)
