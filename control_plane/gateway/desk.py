"""Where calls are taken in, and the calls that have not ended."""

from __future__ import annotations

from dataclasses import dataclass

from control_plane.contracts.call import Router
from control_plane.contracts.errors import InferDeckError, Unavailable
from control_plane.gateway.api import Api
from control_plane.gateway.calls import Call
from control_plane.gateway.figures import Figures
from control_plane.gateway.history.history import History
from control_plane.gateway.http.exchange import Exchange
from control_plane.gateway.limits.limiter import Limiter
from control_plane.gateway.model_door import check_model, override_of
from control_plane.gateway.prompt.lanes import Lanes
from control_plane.gateway.prompt.models import ModelPrompts
from control_plane.gateway.reading import read_body
from control_plane.gateway.schema.generation import Generation


@dataclass(slots=True)
class Desk:
    """What calls are made with. Without a ``history`` no conversation is kept or continued; ``wait_s`` is how long a
    call waits for its model's first worker, in seconds."""

    router: Router
    prompts: ModelPrompts
    lanes: Lanes
    figures: Figures
    wait_s: float
    active: dict[str, Call]
    limiter: Limiter
    history: History | None = None

    def take(self, exchange: Exchange, api: Api) -> None:
        """Start a call. Raises InferDeckError for a body that is none, or a model that the key may not call."""
        size = exchange.received

        def start(generation: Generation) -> None:
            check_model(self.router, exchange.grant, generation.model, override_of(exchange))
            thread = generation.thread
            if thread is not None and (thread.kept or thread.continues) and self.history is None:
                raise Unavailable("This gateway keeps no conversations.")
            generation.body_bytes = size
            Call(self, exchange, generation, api).start()

        read_body(exchange, self.lanes, api.read, start, self.refuse)

    def refuse(self, exchange: Exchange, error: InferDeckError, headers: bytes = b"") -> None:
        """Answer a request of which nothing was counted; a caller with a key is told how its limits stand."""

        def answer(limits: bytes) -> None:
            exchange.limits = limits
            exchange.refuse(error, headers)

        if exchange.grant is None:
            exchange.refuse(error, headers)
        else:
            self.limiter.look(exchange.grant, answer)

    def fail_all(self, error: InferDeckError) -> None:
        for call in tuple(self.active.values()):
            call.fail(error)
