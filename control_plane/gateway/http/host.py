"""What a connection needs of whoever accepted it, and shows of itself for that."""

from __future__ import annotations

from typing import Protocol

from control_plane.gateway.http.exchange import Exchange
from control_plane.gateway.http.limits import ConnectionLimits


class App(Protocol):
    """What answers requests. Called on the event loop's thread; may not block or raise."""

    def advance(self, exchange: Exchange) -> None:
        """The head of a request is here, or more of its body, or all of it."""
        ...

    def ended(self, exchange: Exchange) -> None:
        """The response is out, or the client has left. Called once for every exchange, refused ones included."""
        ...


class Guest(Protocol):
    """One connection. ``receive_deadline`` and ``output_due`` are monotonic seconds, at which ``expired`` is called;
    infinite: never. ``forsaken``: nobody will tell us that its client is gone."""

    receive_deadline: float
    output_due: float

    @property
    def forsaken(self) -> bool: ...

    def expired(self, now: float) -> None: ...

    def close_after(self) -> None: ...

    def abort(self) -> None: ...


class Host(Protocol):
    """``now`` is the monotonic time of the last sweep, ``date`` the header line of it; ``closing``: no response is to
    be followed by another."""

    @property
    def app(self) -> App: ...

    @property
    def limits(self) -> ConnectionLimits: ...

    closing: bool
    now: float
    date: bytes

    def opened(self, connection: Guest) -> None: ...

    def closed(self, connection: Guest) -> None: ...

    def hold(self, size: int) -> bool:
        """Account for body bytes in memory; False when all bodies together have no room for them."""
        ...

    def let_go(self, size: int) -> None: ...
