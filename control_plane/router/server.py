"""A router as a process of its own: the gRPC service of ``router.proto``, health and reflection, on one port.

::

    server = RouterServer("r1")
    router = EmbeddedRouter(router_id="r1", ..., stats=server.stats)
    address = server.bind("127.0.0.1", 0)
    await server.start(router)
    ...
    await server.drained()        # after drain(): when every call has ended
    await server.stop()           # gateways take what still runs elsewhere
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from control_plane.contracts.errors import (
    Conflict,
    DropReason,
    InferDeckError,
    InternalError,
    InvalidRequest,
    SettingsError,
    Unavailable,
)
from control_plane.contracts.fleet import GatewayStats
from control_plane.contracts.identity import Peer
from control_plane.contracts.router_state import RoutedGateway, RouterState
from control_plane.contracts.v1 import router_pb2 as pb
from control_plane.contracts.v1 import router_pb2_grpc, routing_pb2, worker_pb2
from control_plane.contracts.wire.channel import SERVER_OPTIONS
from control_plane.contracts.wire.convert import to_wire
from control_plane.contracts.wire.frames import fill_frame
from control_plane.contracts.wire.routed import catalogue_to_wire, refusal_to_wire, submit_from_wire
from control_plane.contracts.wire.secure import PeerGate, listen
from control_plane.contracts.wire.status import abort_with
from control_plane.process_use import process_use
from control_plane.router.embedded import EmbeddedRouter
from control_plane.router.gateway_stream import Batch, GatewayStream
from control_plane.router.seen import seen_endpoints
from control_plane.tasks import Tasks

SERVICE: Final = "inferdeck.v1.Router"

PEERS: Final = {
    "/": frozenset({Peer.GATEWAY, Peer.CONTROL_PLANE}),
    "/grpc.health.v1.Health/": frozenset(Peer),
}
"""Who may call what, by the certificate."""

BEAT_S: Final = 1.0
"""How often a gateway hears of a router at least: that it lives, and how much it has to do."""

LOOK_S: Final = 0.1
"""How often a router looks whether there is news of itself."""

_CHUNK: Final = 1 << 20

_log = logging.getLogger(__name__)
_Context = grpc.aio.ServicerContext[Any, Any]


def _parse_frame(data: bytes) -> pb.GatewayFrame:
    """The frame, or an empty one for bytes that are none: a stream outlives what it can't read."""
    try:
        return pb.GatewayFrame.FromString(data)
    except DecodeError:
        return pb.GatewayFrame()


class RouterServer:
    """``bind`` takes the port, ``start`` answers; nobody is answered in between. ``metrics_url`` is where its figures
    are, for those who ask for its state."""

    def __init__(self, router_id: str, credentials: str = "") -> None:
        self.router_id = router_id
        self.address = ""
        self.started_unix = time.time()
        self.draining = False
        self.metrics_url = ""
        self._credentials = credentials
        gates = (PeerGate(PEERS),) if credentials else ()
        self._server = grpc.aio.server(interceptors=gates, options=SERVER_OPTIONS)
        self._health = health.aio.HealthServicer()
        self._servicer: _Servicer | None = None
        self._tasks = Tasks()

    @property
    def gateways(self) -> int:
        """How many have a stream to it."""
        return len(self._servicer.gateways) if self._servicer is not None else 0

    @property
    def secure(self) -> bool:
        return bool(self._credentials)

    def bind(self, host: str, port: int) -> str:
        """The address that was taken; port 0 is any. Raises SettingsError if it cannot be had."""
        name = f"[{host}]" if ":" in host else host
        try:
            self.address = f"{name}:{listen(self._server, f'{name}:{port}', self._credentials)}"
        except RuntimeError as error:
            raise SettingsError(
                f"router.port: cannot listen on {name}:{port}: {error}",
                param="router.port",
                hint="set host and port in [router] of the config file; port 0 takes any free one",
            ) from None
        return self.address

    async def start(self, router: EmbeddedRouter) -> None:
        self._servicer = _Servicer(self, router)
        router_pb2_grpc.add_RouterServicer_to_server(self._servicer, self._server)  # type: ignore[no-untyped-call]
        self._server.add_registered_method_handlers(SERVICE, {"Route": self._servicer.route_handler()})
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection.enable_server_reflection((SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME), self._server)
        await self._server.start()
        self._tasks.keep(self._servicer.beat, "beat")
        for name in ("", SERVICE):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    def stats(self) -> GatewayStats:
        """The figures now, for the router's report to the fleet."""
        use = process_use((os.getpid(),))
        servicer = self._servicer
        return GatewayStats(
            ready=servicer is not None and servicer.router.ready() and not self.draining,
            in_flight=servicer.router.in_flight if servicer is not None else 0,
            requests_total=servicer.requests if servicer is not None else 0,
            output_tokens_total=servicer.tokens if servicer is not None else 0,
            rss_bytes=use.rss_bytes,
            cpu_s=use.cpu_s,
            draining=self.draining,
        )

    def drain(self) -> None:
        """Take no new calls; gateways are told at once, and go to others. Idempotent."""
        self.draining = True
        if self._servicer is not None:
            self._servicer.nudge()

    async def drained(self) -> None:
        """Return when no call is left."""
        while self._servicer is not None and self._servicer.router.in_flight:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)

    async def stop(self) -> None:
        """End the streams, without a word about the calls on them: for a gateway that is a router that is lost, and it
        takes them elsewhere. Idempotent."""
        await self._tasks.cancel()
        await self._health.enter_graceful_shutdown()
        await self._server.stop(None)


class _Servicer(router_pb2_grpc.RouterServicer):
    def __init__(self, server: RouterServer, router: EmbeddedRouter) -> None:
        self.router = router
        self._server = server
        self._streams: set[GatewayStream] = set()
        self._requests_before = 0
        self._tokens_before = 0

    @property
    def requests(self) -> int:
        """Since the start."""
        return self._requests_before + sum(stream.requests for stream in self._streams)

    @property
    def tokens(self) -> int:
        return self._tokens_before + sum(stream.tokens for stream in self._streams)

    @property
    def gateways(self) -> tuple[RoutedGateway, ...]:
        return tuple(RoutedGateway(stream.gateway_id, len(stream)) for stream in self._streams)

    def nudge(self) -> None:
        for stream in self._streams:
            stream.nudge()

    async def beat(self) -> None:
        """Tell every gateway of changes, and of nothing but being there where there are none."""
        told, told_at = b"", 0.0
        while True:
            news, now = self._catalogue(in_flight=0).SerializeToString(), time.monotonic()
            if news != told or now - told_at >= BEAT_S:
                told, told_at = news, now
                self.nudge()
            await asyncio.sleep(LOOK_S)

    def _catalogue(self, *, in_flight: int) -> pb.Catalogue:
        return catalogue_to_wire(
            self._server.router_id,
            [replace(view, max_context=self.router.max_context(view.name)) for view in self.router.models()],
            joined=self.router.joined,
            ready=self.router.ready(),
            draining=self._server.draining,
            in_flight=in_flight,
        )

    def route_handler(self) -> grpc.RpcMethodHandler[Any, Any]:
        """Route with a parser that never fails; with the generated one a frame of wrong bytes would end the stream."""
        return grpc.stream_stream_rpc_method_handler(self.Route, _parse_frame, pb.RoutedFrame.SerializeToString)

    async def Route(self, frames: AsyncIterator[pb.GatewayFrame], context: _Context) -> None:  # noqa: N802
        task = asyncio.current_task()
        assert task is not None
        stream = GatewayStream(self.router, task.cancel)
        self._streams.add(stream)
        reader = asyncio.create_task(self._read(frames, stream))
        seq = 0
        try:
            while (taken := await stream.take()) is not None:
                seq += 1
                await context.write(self._frame(seq, *taken))
            if reader.done():
                reader.result()
        except InferDeckError as error:
            await abort_with(context, error)
        except asyncio.CancelledError:
            if not stream.overrun:
                raise
        finally:
            reader.cancel()
            self._streams.discard(stream)
            self._requests_before += stream.requests
            self._tokens_before += stream.tokens
            stream.withdraw_all()
        if stream.overrun:
            _log.warning("a gateway does not read: its stream is ended", extra={"gateway_id": stream.gateway_id})
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "the gateway does not read what it asked for")

    async def _read(self, frames: AsyncIterator[pb.GatewayFrame], stream: GatewayStream) -> None:
        """The gateway's frames, until it ends the stream. No frame, however wrong, ends it, but for a greeting that is
        meant for somebody else or names nobody."""
        try:
            async for frame in frames:
                kind = frame.WhichOneof("kind")
                if kind == "hello":
                    self._greet(frame.hello, stream)
                elif kind == "submit":
                    self._submit(frame.submit, stream)
                elif kind == "withdraw":
                    wire = frame.withdraw
                    stream.withdraw(wire.call, wire.reason, tell_used=wire.tell_used)
                else:
                    _log.warning("a frame that is none was ignored", extra={"gateway_id": stream.gateway_id})
        finally:
            stream.withdraw_all()
            stream.close()

    def _greet(self, hello: pb.GatewayHello, stream: GatewayStream) -> None:
        if hello.router_id != self._server.router_id:
            raise Conflict(f"this is router {self._server.router_id}, not {hello.router_id}", param="router_id")
        if not hello.gateway_id:
            raise InvalidRequest("a gateway says who it is", param="gateway_id")
        stream.greet(hello.gateway_id)
        _log.info("a gateway has come", extra={"gateway_id": stream.gateway_id})

    def _submit(self, wire: pb.SubmitCall, stream: GatewayStream) -> None:
        number, request_id = wire.call, wire.routed.request_id
        if number in stream:
            _log.warning("a second call with a number in use was ignored", extra={"request_id": request_id})
            return
        if self._server.draining:
            stream.refuse(number, Unavailable("The router is stopping.", reason=DropReason.DRAINING))
            return
        try:
            call = submit_from_wire(wire, stream.gateway_id, request_id, time.monotonic())
        except Exception:
            # One call, not the stream with all others on it: its gateway would send it to the next router as well.
            _log.exception("a call could not be read", extra={"request_id": request_id})
            stream.refuse(number, InternalError("The router could not read the call."))
            return
        stream.submit(number, call)

    def _frame(self, seq: int, batch: Batch, news: bool) -> pb.RoutedFrame:
        frame = pb.RoutedFrame(seq=seq)
        if batch.deltas:
            frame.tokens.sent_unix = time.time()
            fill_frame(frame.tokens, batch.deltas)
        for number, worker_unix in batch.hops:
            frame.hops.add(call=number, worker_unix=worker_unix)
        for number, (worker_id, retries) in batch.placed.items():
            frame.placed.add(call=number, worker_id=worker_id, retries=retries)
        for number, error in batch.refusals:
            frame.refusals.append(refusal_to_wire(number, error))
        for number, tokens in batch.last_words:
            frame.last_words.add(call=number, output_tokens=tokens)
        if news:
            frame.catalogue.CopyFrom(self._catalogue(in_flight=self.router.in_flight))
        return frame

    async def GetTokenizer(  # noqa: N802
        self, request: pb.ModelTokenizerRequest, context: _Context
    ) -> AsyncIterator[pb.TokenizerChunk]:
        try:
            bundle = await self.router.tokenizer_files(request.model)
        except InferDeckError as error:
            await abort_with(context, error)
        unchanged = bundle.hash == request.known_hash
        yield pb.TokenizerChunk(
            hash=bundle.hash, max_context=bundle.max_context, vocab_size=bundle.vocab_size, unchanged=unchanged
        )
        for name, data in () if unchanged else sorted(bundle.files.items()):
            for start in range(0, max(len(data), 1), _CHUNK):
                piece, last = data[start : start + _CHUNK], start + _CHUNK >= len(data)
                file = worker_pb2.FileChunk(name=name, size=len(data), data=piece, last=last)
                yield pb.TokenizerChunk(file=file)

    async def State(self, request: pb.StateRequest, context: _Context) -> routing_pb2.RouterState:  # noqa: N802
        targets = self.router.dispatcher.targets.all()
        state = RouterState(
            router_id=self._server.router_id,
            pid=os.getpid(),
            started_unix=self._server.started_unix,
            profile=self.router.profile,
            queued=self.router.dispatcher.queued,
            draining=self._server.draining,
            gateways=self.gateways,
            metrics_url=self._server.metrics_url,
            endpoints=tuple(seen_endpoints(targets, time.monotonic())),
        )
        return to_wire(state, routing_pb2.RouterState)
