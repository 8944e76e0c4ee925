"""What every call is made with, and the calls that have not ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from control_plane.contracts.call import Router
from control_plane.contracts.errors import InferDeckError
from control_plane.gateway.figures import Figures
from control_plane.gateway.history.history import History
from control_plane.gateway.http.exchange import Exchange
from control_plane.gateway.limits.limiter import Limiter
from control_plane.gateway.prompt.lanes import Lanes
from control_plane.gateway.prompt.models import ModelPrompts


class Active(Protocol):
    """A call that has not ended."""

    def fail(self, error: InferDeckError) -> None:
        """End it with this error, wherever it is."""
        ...


@dataclass(slots=True)
class Desk:
    """``active`` are the calls that run, by request id. Without a ``history`` no conversation is kept or continued;
    ``wait_s`` is how long a call waits for its model's first worker, in seconds."""

    router: Router
    prompts: ModelPrompts
    lanes: Lanes
    figures: Figures
    wait_s: float
    active: dict[str, Active]
    limiter: Limiter
    history: History | None = None

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
