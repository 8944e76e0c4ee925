"""Calls that wait for a router, in the order in which they came, each until its deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

from control_plane.contracts.errors import InferDeckError
from control_plane.router import refusals
from control_plane.router.remote.call import RemoteCall

_NO_OTHER = "no other router could take it up in time"


class CallQueue:
    """``send`` says whether there was a router for the call. ``over`` ends a call whose time is up with an error, and
    has to ``remove`` it. Everything happens on the loop that ``add`` is called on."""

    def __init__(
        self, *, send: Callable[[RemoteCall], bool], over: Callable[[RemoteCall, InferDeckError], None]
    ) -> None:
        self._send = send
        self._over = over
        self._waiting: dict[int, RemoteCall] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[RemoteCall]:
        """A copy of what waits now."""
        return iter(tuple(self._waiting.values()))

    def add(self, call: RemoteCall) -> None:
        self._waiting[call.seq] = call
        self._arm()

    def remove(self, call: RemoteCall) -> None:
        """It waits no more, if it did."""
        self._waiting.pop(call.seq, None)

    def drain(self) -> None:
        """Send those that wait, the first first, as long as there is a router for them."""
        for seq in sorted(self._waiting):
            call = self._waiting.get(seq)
            if call is None:
                continue
            if not self._send(call):
                return
            self._waiting.pop(seq, None)
        self._arm()

    def close(self) -> None:
        """Its owner has ended those that waited."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self.close()
        if self._waiting:
            delay_s = min(call.deadline for call in self._waiting.values()) - time.monotonic()
            self._timer = asyncio.get_running_loop().call_later(max(0.0, delay_s), self._expire)

    def _expire(self) -> None:
        now = time.monotonic()
        for call in [call for call in self if call.deadline <= now]:
            if call.begun:
                self._over(call, refusals.router_lost(len(call.said), call.attempts, _NO_OTHER))
            else:
                self._over(call, refusals.no_router_in_time(call.wait_s))
        self._arm()
