"""A request whose caller asked when each of its tokens passed by. All others cost nothing for it."""

from __future__ import annotations

from control_plane.contracts.call import CallSink, HopSink, RoutedCall
from control_plane.contracts.worker import Delta
from control_plane.router.requests import Owner, Request


class TimedRequest(Request):
    """Tells its sink of each delta's way before the delta itself."""

    __slots__ = ("_hops",)

    def __init__(self, owner: Owner, call: RoutedCall, sink: CallSink, seq: int, now: float, price: float) -> None:
        super().__init__(owner, call, sink, seq, now, price)
        self._hops = sink if isinstance(sink, HopSink) else None

    def token(self, delta: Delta, now: float) -> None:
        self._passed(now)
        super().token(delta, now)

    def take(self, delta: Delta, now: float) -> None:
        if delta.error is None:
            self._passed(now)
        super().take(delta, now)

    def _passed(self, now: float) -> None:
        if self._hops is not None and self.target is not None:
            # This process's wall clock, as it was when the call came.
            self._hops.passed(self.target.sent_unix, self.call.arrival_unix + now - self.call.arrival_mono)
