"""Steps that are decided while others run, and what belongs to each.

A step is closed when the next one is about to be scheduled, or when its own output comes, whichever is first: what
ended by then is told with it, and its block counts are of that moment. So the tables that follow from the steps are the
scheduler's own. It is what ``vllm_tracer`` does with vLLM's.
"""

from __future__ import annotations

from collections import deque

from control_plane.contracts.step import StepFinished
from workers.engine.sim.block_pool import BlockCounts
from workers.engine.sim.scheduled import Scheduled


class Flight:
    """``told``: it runs something, or tells something. ``seen``: a snapshot of after it was taken, so that what comes
    later belongs to another."""

    __slots__ = ("counts", "finished", "scheduled", "seen", "told")

    def __init__(self, scheduled: Scheduled, told: bool) -> None:
        self.scheduled = scheduled
        self.told = told
        self.seen = False
        self.finished: list[StepFinished] = []
        self.counts = BlockCounts(0, 0, 0)


class InFlight:
    """``ended`` is the scheduler's list of those that have ended and are not told yet. ``landed_counts`` are the blocks
    after the step that came back last."""

    def __init__(self, ended: list[StepFinished]) -> None:
        self._ended = ended
        self._flights: deque[Flight] = deque()
        self._open: Flight | None = None
        self.landed_counts = BlockCounts(0, 0, 0)

    def add(self, scheduled: Scheduled, told: bool) -> None:
        flight = Flight(scheduled, told)
        self._flights.append(flight)
        # One that tells nothing leaves the last that does as it was.
        last = next((each for each in reversed(self._flights) if each.told), None)
        self._open = last if last is not None and not last.seen else None

    def close(self, counts: BlockCounts) -> None:
        """What is open is over; ``counts`` are the blocks now."""
        if self._open is not None:
            self._open.finished += self._ended
            self._open.counts = counts
            self._ended.clear()
            self._open = None

    def look(self, counts: BlockCounts) -> None:
        """A snapshot is taken, ``counts`` are its blocks."""
        self.close(counts)
        for flight in self._flights:
            flight.seen = True

    def land(self, scheduled: Scheduled, counts: BlockCounts) -> tuple[StepFinished, ...]:
        """Its output has come; who ended with it. Steps come back in the order in which they were scheduled."""
        flight = self._flights.popleft()
        assert flight.scheduled is scheduled, "steps end in their order"
        if flight is self._open:
            self.close(counts)
        self.landed_counts = flight.counts
        return tuple(flight.finished)

    def drop(self, scheduled: Scheduled) -> None:
        """The last one was none."""
        flight = self._flights.pop()
        assert flight.scheduled is scheduled, "only the last one can be dropped"
        assert not flight.told, "what tells something has to be completed"
