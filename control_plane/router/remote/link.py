"""One long-lived stream to one router: calls out, tokens back. It is the hot path of a gateway without its own router.

As on the stream to a worker, what arrives is handed straight to each call's sink.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Protocol

from google.protobuf.message import DecodeError

from control_plane.contracts.call import RoutedCall
from control_plane.contracts.errors import DropReason, InferDeckError, SettingsError
from control_plane.contracts.fleet import ModelView, RouterEndpoint
from control_plane.contracts.identity import Peer
from control_plane.contracts.v1 import router_pb2 as pb
from control_plane.contracts.v1 import worker_pb2
from control_plane.contracts.wire.frames import delta_from_wire, tokens_from_wire
from control_plane.contracts.wire.routed import models_from_wire, refusal_from_wire, submit_to_wire
from control_plane.contracts.worker import Delta
from control_plane.router import refusals
from control_plane.router.forwarder.grpc_stream import GrpcStream, StreamBroken, open_stream
from control_plane.router.remote.call import RemoteCall
from control_plane.router.remote.choice import LOST_BEATS, Standing

_log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 2.0
BEAT_S = 1.0
FIRST_BACKOFF_S = 0.1
LONGEST_BACKOFF_S = 2.0
_ROUTE = "/inferdeck.v1.Router/Route"


def key_of(endpoint: RouterEndpoint) -> str:
    """What tells one process of a router from the next."""
    return f"{endpoint.id}@{endpoint.address}"


class LinkOwner(Protocol):
    """Told about the stream and its calls, on the event loop's thread."""

    def news(self, link: RouterLink) -> None:
        """The router has said how it stands."""
        ...

    def link_down(self, link: RouterLink, cause: str) -> None: ...

    def refused(self, link: RouterLink, call: RemoteCall, error: InferDeckError) -> None: ...

    def sink_broke(self, call: RemoteCall) -> None: ...


class RouterLink:
    """Connects, and connects again, until it is closed. Make it inside a running loop.

    ``calls`` are what this gateway has there, by number. ``models`` is what the router said last. ``leaving``: the
    fleet does not name it any more, and it is used no longer than its stream lives. ``credentials`` is the gateway's
    own file, for routers that want to see one.
    """

    def __init__(self, endpoint: RouterEndpoint, gateway_id: str, owner: LinkOwner, credentials: str = "") -> None:
        self.endpoint = endpoint
        self.standing = Standing(key_of(endpoint))
        self.calls: dict[int, RemoteCall] = {}
        self.models: tuple[ModelView, ...] = ()
        self.leaving = False
        self._gateway_id = gateway_id
        self._owner = owner
        self._credentials = credentials
        self._last_words: dict[int, Callable[[int], None]] = {}
        self._stream: GrpcStream | None = None
        self._end: Callable[[str], None] = lambda cause: None
        self._number = 0
        self._seq = 0
        self._timed = False
        self.task = asyncio.get_running_loop().create_task(self._run(), name=f"router-{endpoint.id}")

    def submit(self, call: RemoteCall, routed: RoutedCall) -> None:
        """``routed`` is the call as it goes on now. Raises nothing for a stream that has just ended: that is told."""
        self._number += 1
        call.number, call.link, call.worker_id = self._number, self, ""
        wire = submit_to_wire(self._number, routed, time.monotonic())
        self.calls[self._number] = call
        self._timed |= routed.hops
        self.standing.own = len(self.calls)
        self._send(pb.GatewayFrame(submit=wire))

    def withdraw(self, call: RemoteCall, reason: str, used: Callable[[int], None] | None) -> None:
        self.release(call)
        if used is not None:
            self._last_words[call.number] = used
        wire = pb.WithdrawCall(call=call.number, reason=reason, tell_used=used is not None)
        self._send(pb.GatewayFrame(withdraw=wire))

    def release(self, call: RemoteCall) -> None:
        """The router does not hold it any more. The one place where the count goes down."""
        if self.calls.pop(call.number, None) is not None:
            self.standing.own = len(self.calls)
        call.link = None

    def close(self) -> None:
        self._shut()
        self.task.cancel()

    def _send(self, frame: pb.GatewayFrame) -> None:
        if self._stream is not None:
            self._stream.send(frame.SerializeToString())

    async def _run(self) -> None:
        backoff, last_cause = FIRST_BACKOFF_S, ""
        while True:
            try:
                cause = await self._live()
            except (StreamBroken, OSError, TimeoutError, SettingsError) as error:
                cause = str(error) or "nobody answers"
            except Exception as error:
                _log.exception("a link failed", extra={"router_id": self.endpoint.id})
                cause = f"{type(error).__name__}: {error}"
            finally:
                was_there = self.standing.connected
                self._shut()
            if was_there or cause != last_cause:
                words = "lost the stream to a router" if was_there else "cannot connect to a router"
                _log.warning(words, extra={"router_id": self.endpoint.id, "cause": cause, "in_flight": len(self.calls)})
            if was_there:
                backoff = FIRST_BACKOFF_S
            last_cause = cause
            try:
                self._owner.link_down(self, cause)
            except Exception:
                # It is connected again all the same: nobody else would.
                _log.exception("the end of a link could not be dealt with", extra={"router_id": self.endpoint.id})
            await asyncio.sleep(backoff)
            backoff = min(2 * backoff, LONGEST_BACKOFF_S)

    async def _live(self) -> str:
        """From connecting to the end of the stream. Returns the cause of it."""
        endpoint = self.endpoint
        credentials = self._credentials if endpoint.secure else ""
        ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._end = lambda cause: None if ended.done() else ended.set_result(cause)
        self._seq = 0
        self._stream = await open_stream(
            endpoint.address, _ROUTE, self._take, self._end, CONNECT_TIMEOUT_S, credentials, Peer.ROUTER
        )
        hello = pb.GatewayHello(gateway_id=self._gateway_id, router_id=endpoint.id)
        self._stream.send(pb.GatewayFrame(hello=hello).SerializeToString())
        self.standing.missed = 0
        while not ended.done():
            seq = self._seq
            await asyncio.wait({ended}, timeout=BEAT_S)
            # Counted by turns of this loop, so that a gateway that was held up itself does not take that for silence.
            self.standing.missed = self.standing.missed + 1 if self._seq == seq else 0
            if self.standing.missed >= LOST_BEATS and not ended.done():
                return f"the router was silent for {LOST_BEATS * BEAT_S:g} s"
        return ended.result()

    def _shut(self) -> None:
        standing = self.standing
        standing.connected = standing.joined = standing.ready = standing.draining = False
        standing.total = standing.own_then = 0
        self._last_words.clear()
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    # --- frames in

    def _take(self, message: bytes) -> None:
        now = time.monotonic()
        try:
            frame = pb.RoutedFrame.FromString(message)
        except DecodeError:
            raise StreamBroken("a frame is none") from None
        self._seq += 1
        if frame.seq != self._seq:
            raise StreamBroken(f"frame {self._seq} is missing, {frame.seq} came")
        call_of = self.calls.get
        for placed in frame.placed:
            call = call_of(placed.call)
            if call is not None:
                call.placed(placed.worker_id, placed.retries)
        if self._timed:
            for hop in frame.hops:
                call = call_of(hop.call)
                if call is not None:
                    call.passed(hop.worker_unix, frame.tokens.sent_unix)
        if frame.HasField("tokens"):
            self._tokens(frame.tokens, now)
        for refusal in frame.refusals:
            call = call_of(refusal.call)
            if call is not None:
                self.release(call)
                self._owner.refused(self, call, refusal_from_wire(refusal))
            else:
                # It had failed before the router heard that it was left: nobody tells what it had generated.
                self._last_words.pop(refusal.call, None)
        for words in frame.last_words:
            self._used(words.call, words.output_tokens)
        if frame.HasField("catalogue"):
            self._news(frame.catalogue)

    def _tokens(self, frame: worker_pb2.WorkerFrame, now: float) -> None:
        call_of = self.calls.get
        try:
            for number, token_id, text in tokens_from_wire(frame):
                call = call_of(number)
                if call is not None:
                    try:
                        call.take(Delta(number, (token_id,), text), now)
                    except Exception:
                        self._sink_broke(call)
        except ValueError:
            raise StreamBroken("a frame's columns differ in length") from None
        for wire in frame.deltas:
            call = call_of(wire.call)
            if call is None:
                if wire.HasField("done"):
                    # It had ended before the router heard that it was left, and there are no other last words.
                    self._used(wire.call, wire.done.output_tokens)
                continue
            try:
                delta = delta_from_wire(wire)
            except Exception:
                # One call, not the stream with all others on it: the next router would tell them the same.
                _log.exception("a delta could not be read", extra={"request_id": call.call.request_id})
                self.withdraw(call, DropReason.INTERNAL_ERROR, None)
                self._owner.refused(self, call, refusals.unreadable())
                continue
            if delta.done is not None:
                call.over = True
                self.release(call)
            try:
                call.take(delta, now)
            except Exception:
                self._sink_broke(call)

    def _used(self, number: int, output_tokens: int) -> None:
        """The router says of a call that was left what it had generated."""
        used = self._last_words.pop(number, None)
        if used is not None:
            try:
                used(output_tokens)
            except Exception:
                _log.exception("the last words of a call could not be passed on")

    def _news(self, wire: pb.Catalogue) -> None:
        standing = self.standing
        self.models = models_from_wire(wire)
        standing.serving = frozenset(view.name for view in self.models if view.ready_workers)
        standing.joined, standing.ready, standing.draining = wire.joined, wire.ready, wire.draining
        standing.total, standing.own_then = wire.in_flight, len(self.calls)
        if not standing.connected:
            standing.connected = True
            _log.info("connected to a router", extra={"router_id": self.endpoint.id})
        self._owner.news(self)

    def _sink_broke(self, call: RemoteCall) -> None:
        _log.exception("a delta could not be passed on", extra={"request_id": call.call.request_id})
        self._owner.sink_broke(call)
