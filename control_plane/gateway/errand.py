"""A request that generates nothing: tokens that are counted, what is kept. It is one request of its key's limits, and
one of the calls at one time, and takes no tokens."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from control_plane.contracts.errors import InferDeckError, InternalError
from control_plane.gateway.http.exchange import Exchange
from control_plane.gateway.limits.limiter import Admission, Limiter
from control_plane.gateway.limits.spending import counts_as_request
from control_plane.gateway.prompt.lanes import Lanes
from control_plane.gateway.reading import read_body

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Errands:
    """What errands are run with. ``refuse`` answers a request of which nothing was counted."""

    lanes: Lanes
    limiter: Limiter
    refuse: Callable[[Exchange, InferDeckError], None]

    def read(self, exchange: Exchange, read: Callable[[dict[str, Any]], T], then: Callable[[T], None]) -> None:
        """Call ``then`` with what ``read`` makes of the body."""
        read_body(exchange, self.lanes, read, then, self.refuse)

    def start(self, exchange: Exchange, step: Callable[[Errand], None]) -> None:
        """Call ``step`` when the limits allow it; what it raises is the answer."""
        errand = Errand(exchange, self.limiter.admission(exchange.grant))
        errand.enter(lambda: step(errand))


class Errand:
    """Ends with ``respond`` or ``refuse``. ``leave`` is called if the client leaves before that."""

    __slots__ = ("_admission", "_exchange", "leave")

    def __init__(self, exchange: Exchange, admission: Admission) -> None:
        self._exchange = exchange
        self._admission = admission
        self.leave: Callable[[], None] | None = None

    def enter(self, step: Callable[[], None]) -> None:
        def entered(refused: InferDeckError | None) -> None:
            if refused is not None:
                self.refuse(refused)
                return
            try:
                step()
            except InferDeckError as error:
                self.refuse(error)
            except Exception as error:
                log.error(
                    "a request could not be handled", exc_info=error, extra={"request_id": self._exchange.request_id}
                )
                self.refuse(InternalError("The request could not be handled."))

        self._exchange.on_gone = self._gone
        self._admission.enter(entered, least=0, most=0)

    def respond(self, body: bytes) -> None:
        self._end(counts=True)
        self._exchange.respond(200, body)

    def refuse(self, error: InferDeckError) -> None:
        self._end(counts=counts_as_request(error))
        self._exchange.refuse(error)

    def _end(self, *, counts: bool) -> None:
        self._exchange.limits = self._admission.headers()
        self._admission.settle(0 if counts else None)

    def _gone(self) -> None:
        self._admission.settle(0)
        if self.leave is not None:
            self.leave()
