"""One long-lived stream to one worker instance: calls out, tokens back.

What arrives is handed straight to each call's sink: no task is woken for a token. It is the hot path of the whole
gateway.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, Protocol

import grpc
from google.protobuf.message import DecodeError

from control_plane.contracts.call import RoutedCall
from control_plane.contracts.errors import SettingsError
from control_plane.contracts.identity import Peer
from control_plane.contracts.v1 import worker_pb2 as pb
from control_plane.contracts.v1.worker_pb2_grpc import WorkerStub
from control_plane.contracts.wire.frames import delta_from_wire, tokens_from_wire
from control_plane.contracts.wire.generate import write_generate
from control_plane.contracts.wire.secure import open_channel
from control_plane.contracts.worker import Delta
from control_plane.router.forwarder.grpc_stream import GrpcStream, StreamBroken, open_stream
from control_plane.router.forwarder.kv_watch import KvWatch
from control_plane.router.requests import Request
from control_plane.router.targets import Target
from control_plane.tasks import AGAIN_S

_log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 2.0
_SERVE = "/inferdeck.v1.Worker/Serve"


class LinkOwner(Protocol):
    """Told about the stream, on the event loop's thread."""

    def link_up(self, target: Target) -> None: ...

    def link_down(self, target: Target, cause: str) -> float:
        """Returns how long to wait before the next attempt, in seconds."""
        ...

    def sink_broke(self, request: Request) -> None: ...

    def unreadable(self, request: Request) -> None: ...


class WorkerLink:
    """Connects, and connects again after a cool-down, until it is closed. Make it inside a running loop.

    Only the instance that the target stands for will do: another one at the same address is refused. ``credentials`` is
    the router's own file, for workers that want to see one. From the first call on that asks when its tokens passed by,
    its target knows when frames were sent.
    """

    def __init__(self, target: Target, router_id: str, owner: LinkOwner, credentials: str = "") -> None:
        self._target = target
        self._router_id = router_id
        self._owner = owner
        self._credentials = credentials
        self._stream: GrpcStream | None = None
        self._kv_watch = KvWatch(target.mirror, target.heard_kv)
        self._seq = 0
        self._timed = False
        self.task = asyncio.get_running_loop().create_task(self._run(), name=f"link-{target.worker_id}")

    def generate(self, number: int, call: RoutedCall) -> None:
        self._timed |= call.hops
        if self._stream is not None:
            self._stream.send(write_generate(number, call))

    def abort(self, number: int) -> None:
        if self._stream is not None:
            self._stream.send(pb.RouterFrame(abort=pb.AbortCall(call=number)).SerializeToString())

    def close(self) -> None:
        self._shut()
        self.task.cancel()

    async def _run(self) -> None:
        while True:
            try:
                cause = await self._live()
            except grpc.aio.AioRpcError as error:
                cause = f"{error.code().name.lower()}: {error.details()}"
            except (StreamBroken, OSError, TimeoutError, SettingsError) as error:
                cause = str(error) or "nobody answers"
            except Exception as error:
                _log.exception("a link failed", extra={"worker_id": self._target.worker_id})
                cause = f"{type(error).__name__}: {error}"
            finally:
                self._shut()
            await asyncio.sleep(self._down(cause))

    def _down(self, cause: str) -> float:
        """How long to wait before the next attempt, in seconds. There is one, whatever the owner makes of the end."""
        try:
            return self._owner.link_down(self._target, cause)
        except Exception:
            _log.exception("the end of a link could not be dealt with", extra={"worker_id": self._target.worker_id})
            return AGAIN_S

    async def _live(self) -> str:
        """From connecting to the end of the stream. Returns the cause of it."""
        address = self._target.endpoint.address
        credentials = self._credentials if self._target.endpoint.secure else ""
        tells_kv_events = await self._check(address, credentials)
        ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._seq = 0
        end = lambda cause: None if ended.done() else ended.set_result(cause)  # noqa: E731
        self._stream = await open_stream(address, _SERVE, self._take, end, CONNECT_TIMEOUT_S, credentials)
        self._stream.send(pb.RouterFrame(hello=pb.Hello(router_id=self._router_id)).SerializeToString())
        self._owner.link_up(self._target)
        if not tells_kv_events:
            return await ended
        watching = asyncio.get_running_loop().create_task(self._kv_watch.follow(address, credentials))
        try:
            return await ended
        finally:
            watching.cancel()
            await asyncio.wait({watching})

    async def _check(self, address: str, credentials: str) -> bool:
        """Whether it tells its KV events. Raises StreamBroken unless the one that answers is the one that is meant."""
        endpoint = self._target.endpoint
        async with open_channel(address, credentials, Peer.WORKER) as channel:
            make_stub: Any = WorkerStub
            info = await make_stub(channel).GetInfo(pb.GetInfoRequest(), timeout=CONNECT_TIMEOUT_S)
        if info.instance_id != endpoint.instance_id:
            raise StreamBroken(f"another instance answers at {address}")
        if info.model.name != endpoint.model:
            raise StreamBroken(f"the worker serves {info.model.name!r}, not {endpoint.model!r}")
        return bool(info.kv_events)

    def _shut(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _take(self, message: bytes) -> None:
        now = time.monotonic()
        try:
            frame = pb.WorkerFrame.FromString(message)
        except DecodeError:
            raise StreamBroken("a frame is none") from None
        self._seq += 1
        if frame.seq != self._seq:
            raise StreamBroken(f"frame {self._seq} is missing, {frame.seq} came")
        if self._timed:
            self._target.sent_unix = frame.sent_unix
        request_of = self._target.calls.get
        try:
            for number, token_id, text in tokens_from_wire(frame):
                request = request_of(number)
                if request is not None:
                    try:
                        request.token(Delta(number, (token_id,), text), now)
                    except Exception:
                        self._sink_broke(request)
        except ValueError:
            raise StreamBroken("a frame's columns differ in length") from None
        for wire in frame.deltas:
            request = request_of(wire.call)
            if request is None:
                # It was left. Where it had failed before the worker heard that, nobody tells what it had generated.
                if wire.HasField("done"):
                    self._ended(wire.call, wire.done.output_tokens)
                elif wire.HasField("error"):
                    self._ended(wire.call, None)
                continue
            try:
                delta = delta_from_wire(wire)
            except Exception:
                # One call, not the stream with all others on it: another worker would tell it the same.
                _log.exception("a delta could not be read", extra={"request_id": request.call.request_id})
                self._owner.unreadable(request)
                continue
            try:
                request.take(delta, now)
            except Exception:
                self._sink_broke(request)

    def _ended(self, number: int, output_tokens: int | None) -> None:
        try:
            self._target.ended(number, output_tokens)
        except Exception:
            _log.exception("the last words of a call could not be passed on")

    def _sink_broke(self, request: Request) -> None:
        _log.exception("a delta could not be passed on", extra={"request_id": request.call.request_id})
        self._owner.sink_broke(request)
