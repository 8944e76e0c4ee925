"""One gateway's calls in a router that is a process of its own, and what waits to be told of them."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from control_plane.contracts.call import CallHandle, RoutedCall, Router
from control_plane.contracts.errors import Conflict, InferDeckError, InternalError
from control_plane.contracts.worker import Delta

_log = logging.getLogger(__name__)

BACKLOG = 65_536
"""Deltas that may wait for a gateway that does not read. At more, its stream is ended."""

GATEWAY_LOST = "gateway_lost"


@dataclass(slots=True)
class Batch:
    """What is written in one frame. All but ``deltas`` name the call by the gateway's number; so do the deltas.
    ``hops``: for each delta of a call that asked, when its worker sent it."""

    placed: dict[int, tuple[str, int]] = field(default_factory=dict)
    deltas: list[Delta] = field(default_factory=list)
    refusals: list[tuple[int, InferDeckError]] = field(default_factory=list)
    last_words: list[tuple[int, int]] = field(default_factory=list)
    hops: list[tuple[int, float]] = field(default_factory=list)

    @property
    def size(self) -> int:
        return len(self.deltas) + len(self.refusals) + len(self.last_words) + len(self.placed)


class GatewayStream:
    """``on_overrun`` is called once, when more than ``BACKLOG`` wait: the gateway does not read.

    ``tokens`` counts what was generated for it.
    """

    def __init__(self, router: Router, on_overrun: Callable[[], object] = lambda: None) -> None:
        self._router = router
        self._on_overrun = on_overrun
        self._calls: dict[int, CallHandle | None] = {}
        self._batch = Batch()
        self._writer: asyncio.Future[None] | None = None
        self._closing = False
        self._told_of_router = True
        self.gateway_id = ""
        self.overrun = False
        self.requests = 0
        self.tokens = 0

    def __len__(self) -> int:
        return len(self._calls)

    def __contains__(self, number: int) -> bool:
        """Whether a call has this number."""
        return number in self._calls

    # --- from the gateway

    def greet(self, gateway_id: str) -> None:
        """Who it is. Nothing is told before, so that the gateway is ready to hear."""
        self.gateway_id = gateway_id
        self.nudge()

    def submit(self, number: int, call: RoutedCall) -> None:
        """Whatever comes of it is told through the stream. No other call may have this number."""
        self._calls[number] = None
        self.requests += 1
        sink = (_TimedSink if call.hops else _Sink)(self, number)
        try:
            try:
                handle = self._router.submit(call, sink)
            except Conflict:
                # Callers choose request ids, and another gateway's may have chosen the same one.
                call = replace(call, request_id=f"{call.request_id}-{random.getrandbits(32):08x}")
                handle = self._router.submit(call, sink)
        except InferDeckError as error:
            self.refuse(number, error)
        except Exception:
            _log.exception("a call could not be taken in", extra={"request_id": call.request_id})
            self.refuse(number, InternalError("The router could not take in the call."))
        else:
            if number in self._calls:
                self._calls[number] = handle

    def withdraw(self, number: int, reason: str, *, tell_used: bool) -> None:
        """The client has left. A call that is over is none to withdraw."""
        handle = self._calls.pop(number, None)
        if handle is not None:
            try:
                handle.cancel(reason, (lambda used: self._used(number, used)) if tell_used else None)
            except Exception:
                # One call of many on this stream, all of which may be on their way out.
                _log.exception("a call could not be withdrawn", extra={"gateway_id": self.gateway_id, "call": number})

    def withdraw_all(self) -> None:
        """The gateway is gone, and so are its clients."""
        while self._calls:
            number = next(iter(self._calls))
            self.withdraw(number, GATEWAY_LOST, tell_used=False)
        self._batch = Batch()

    # --- to the gateway

    def push(self, number: int, delta: Delta) -> None:
        if self.overrun:
            return
        delta.call = number
        self.tokens += len(delta.token_ids)
        if delta.done is not None:
            self._calls.pop(number, None)
        self._batch.deltas.append(delta)
        self._wake()

    def passed(self, number: int, worker_unix: float) -> None:
        """The delta that is pushed next left its worker then."""
        if not self.overrun:
            self._batch.hops.append((number, worker_unix))

    def refuse(self, number: int, error: InferDeckError) -> None:
        self._calls.pop(number, None)
        self._batch.refusals.append((number, error))
        self._wake()

    def place(self, number: int, worker_id: str, retries: int) -> None:
        self._batch.placed[number] = (worker_id, retries)
        self._wake()

    def nudge(self) -> None:
        """There is news of the router itself."""
        if self.gateway_id:
            self._told_of_router = False
            self._wake()

    async def take(self) -> tuple[Batch, bool] | None:
        """All that waits, and whether there is news of the router, as soon as there is either; None when the stream is
        to end."""
        while not self._batch.size and self._told_of_router:
            if self._closing:
                return None
            self._writer = asyncio.get_running_loop().create_future()
            try:
                await self._writer
            finally:
                self._writer = None
        batch, self._batch = self._batch, Batch()
        news, self._told_of_router = not self._told_of_router, True
        return batch, news

    def close(self) -> None:
        """Nothing more will come; what waits is still written."""
        self._closing = True
        self._wake()

    def _used(self, number: int, tokens: int) -> None:
        self._batch.last_words.append((number, tokens))
        self._wake()

    def _wake(self) -> None:
        if self._writer is not None and not self._writer.done():
            self._writer.set_result(None)
        if len(self._batch.deltas) > BACKLOG and not self.overrun:
            self.overrun = True
            self._batch = Batch()
            self.close()
            self._on_overrun()


class _Sink:
    """One call's way into the stream."""

    __slots__ = ("_number", "_stream")

    def __init__(self, stream: GatewayStream, number: int) -> None:
        self._stream = stream
        self._number = number

    def delta(self, delta: Delta) -> None:
        self._stream.push(self._number, delta)

    def failed(self, error: InferDeckError) -> None:
        self._stream.refuse(self._number, error)

    def placed(self, worker_id: str, retries: int) -> None:
        self._stream.place(self._number, worker_id, retries)


class _TimedSink(_Sink):
    """Of a call that wants to hear when its deltas passed by. When they leave here, the frame says."""

    __slots__ = ()

    def passed(self, worker_unix: float, router_unix: float) -> None:
        self._stream.passed(self._number, worker_unix)
