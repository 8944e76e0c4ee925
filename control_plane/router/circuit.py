"""Keeping calls away from an endpoint that has just failed, and letting it come back by itself. Pure.

Closed: all calls pass. After a break (or ``FAILURES`` failed calls in a row, or a refusal) it is open for a cool-down,
which doubles with every further failure; then half open: one call goes on trial, and its first token closes the
circuit. What the caller did wrong never counts.
"""

from __future__ import annotations

FAILURES = 3
FIRST_COOL_DOWN_S = 0.1
LONGEST_COOL_DOWN_S = 5.0
REFUSAL_COOL_DOWN_S = 0.25

_NO_TRIAL = 0


class Circuit:
    """``open_until``: monotonic time from which on calls may pass; infinite while a trial is out.

    Calls are named by their number, which is never 0.
    """

    __slots__ = ("_failures", "_trial", "_tripped", "open_until", "refused_only")

    def __init__(self) -> None:
        self.open_until = 0.0
        self.refused_only = False
        self._failures = 0
        self._tripped = False
        self._trial = _NO_TRIAL

    @property
    def failures(self) -> int:
        """In a row, without a call that went well in between."""
        return self._failures

    def broke(self, now: float) -> float:
        """The connection could not be made, or broke. Returns how long to leave it alone, in seconds."""
        self._failures += 1
        cool_down = min(LONGEST_COOL_DOWN_S, FIRST_COOL_DOWN_S * float(2 ** min(self._failures - 1, 16)))
        self._trip(now + cool_down, refused_only=False)
        return cool_down

    def connected(self) -> None:
        """There is a connection (again). That is proof enough, unless the last ones failed all the same."""
        if self._failures < FAILURES:
            self._close()

    def failed(self, now: float) -> None:
        """One call failed by the endpoint's fault, on a connection that goes on."""
        if self._failures + 1 >= FAILURES:
            self.broke(now)
        else:
            self._failures += 1

    def refused(self, now: float) -> None:
        """The endpoint works but takes nothing more at present."""
        self._trip(now + REFUSAL_COOL_DOWN_S, refused_only=True)

    def sent(self, number: int) -> None:
        if self._tripped:
            self._trial = number
            self.open_until = float("inf")

    def succeeded(self, number: int) -> None:
        """The call got its first token."""
        self._failures = 0
        if number == self._trial:
            self._close()

    def ended(self, number: int, now: float) -> None:
        """The call is over, whatever became of it: a trial that proved nothing leaves room for the next one, and a
        place that was freed ends a refusal."""
        if number == self._trial:
            self._trial = _NO_TRIAL
            self.open_until = now
        elif self.refused_only and self._trial == _NO_TRIAL and self._tripped:
            self.open_until = min(self.open_until, now)

    def _trip(self, until: float, *, refused_only: bool) -> None:
        self.refused_only = refused_only
        self._tripped = True
        self._trial = _NO_TRIAL
        self.open_until = until

    def _close(self) -> None:
        self._tripped = False
        self.refused_only = False
        self._trial = _NO_TRIAL
        self.open_until = 0.0
