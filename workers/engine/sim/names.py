"""What requests are called in the simulated scheduler and in its steps."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable

from control_plane.contracts.choice import choice_name
from control_plane.contracts.worker import Generate
from workers.engine.choice_id import internal_id
from workers.engine.sim.scheduled import Scheduled


class Names:
    """``running`` has those in use; ``untold(name)`` is whether the end of one of that name is still to be told."""

    def __init__(self, running: Container[str], untold: Callable[[str], bool]) -> None:
        self._running = running
        self._untold = untold
        self._ended: set[str] = set()

    def new(self, call: Generate, index: int) -> str:
        """The request's own id, with ``#1``, ``#2``, … for further choices, as long as nobody else has it."""
        name = choice_name(call.request_id, index)
        if name in self._running or name in self._ended or self._untold(name):
            return internal_id(call.request_id, call.call, index)
        return name

    def ended(self, name: str) -> None:
        self._ended.add(name)

    def landed(self, flying: Iterable[Scheduled]) -> None:
        """A step is over. Names that those in flight have are still taken."""
        if self._ended:
            self._ended &= {row[0] for scheduled in flying for row in scheduled.batch}
