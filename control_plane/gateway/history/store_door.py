"""A request that is answered from the store: read on the loop, done in a thread, answered on the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from control_plane.contracts.errors import InferDeckError, Unavailable
from control_plane.gateway.answer.item_json import to_bytes
from control_plane.gateway.history.history import History
from control_plane.gateway.http.exchange import Exchange


class StoreDoor:
    """Where ``history`` is None nothing is stored, and everything is refused."""

    def __init__(self, history: History | None) -> None:
        self._history = history

    @property
    def history(self) -> History:
        """Raises Unavailable."""
        if self._history is None:
            raise Unavailable("This gateway keeps no conversations.")
        return self._history

    def answer(self, exchange: Exchange, work: Callable[[], Any]) -> None:
        """200 with what ``work`` gives, as JSON, or its error."""

        def answered(result: Any) -> None:
            if exchange.ended:
                return
            if isinstance(result, InferDeckError):
                exchange.refuse(result)
            else:
                exchange.respond(200, result)

        self.history.ask(lambda: to_bytes(work()), answered)
