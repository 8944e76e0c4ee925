"""A request that is answered from the store: read in a lane where that takes long, done in a thread, answered on the
loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from control_plane.contracts.errors import InferDeckError, Unavailable
from control_plane.gateway.answer.item_json import to_bytes
from control_plane.gateway.errand import Errand, Errands
from control_plane.gateway.history.history import History
from control_plane.gateway.http.exchange import Exchange
from control_plane.gateway.schema.table import Table


class StoreDoor:
    """Where ``history`` is None nothing is stored, and everything is refused."""

    def __init__(self, history: History | None, errands: Errands) -> None:
        self._history = history
        self._errands = errands

    @property
    def history(self) -> History:
        """Raises Unavailable."""
        if self._history is None:
            raise Unavailable("This gateway keeps no conversations.")
        return self._history

    def read(self, exchange: Exchange, table: Table, then: Callable[[dict[str, Any]], None]) -> None:
        """Call ``then`` with what the body says."""
        self._errands.read(exchange, table.read, then)

    def answer(self, exchange: Exchange, work: Callable[[], Any]) -> None:
        """200 with what ``work`` gives, as JSON, or its error."""
        history = self.history

        def ask(errand: Errand) -> None:
            def answered(result: Any) -> None:
                if isinstance(result, InferDeckError):
                    errand.refuse(result)
                else:
                    errand.respond(result)

            history.ask(exchange.grant.tenant, lambda: to_bytes(work()), answered)

        self._errands.start(exchange, ask)
