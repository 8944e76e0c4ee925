"""One long-lived stream to one worker instance: calls out, tokens back.

The frame reader hands every delta straight to its call's sink: no task is woken for a token. It is the hot path of the
whole gateway. What goes out is rare and small, and leaves through one writer, as gRPC wants it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from typing import Any, Protocol

import grpc

from control_plane.contracts.call import RoutedCall
from control_plane.contracts.v1 import worker_pb2 as pb
from control_plane.contracts.v1.worker_pb2_grpc import WorkerStub
from control_plane.contracts.wire.channel import CLIENT_OPTIONS
from control_plane.contracts.wire.frames import delta_from_wire
from control_plane.router.forwarder.generate import generate_frame
from control_plane.router.requests import Request
from control_plane.router.targets import Target

_log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 2.0


class StreamBroken(Exception):
    """The stream says something that it can't, or its peer is not who it should be."""


class LinkOwner(Protocol):
    """Told about the stream, on the event loop's thread."""

    def link_up(self, target: Target) -> None: ...

    def link_down(self, target: Target, cause: str) -> float:
        """Returns how long to wait before the next attempt, in seconds."""
        ...

    def sink_broke(self, request: Request) -> None: ...


class WorkerLink:
    """Connects, and connects again after a cool-down, until it is closed. Make it inside a running loop.

    Only the instance that the target stands for will do: another one at the same address is refused.
    """

    def __init__(self, target: Target, router_id: str, owner: LinkOwner) -> None:
        self._target = target
        self._router_id = router_id
        self._owner = owner
        self._outbox: deque[tuple[int, RoutedCall | None]] = deque()
        self._unsent: set[int] = set()
        self._wake = asyncio.Event()
        self._seq = 0
        self._closed = False
        self.task = asyncio.get_running_loop().create_task(self._run(), name=f"link-{target.worker_id}")

    def generate(self, number: int, call: RoutedCall) -> None:
        self._outbox.append((number, call))
        self._unsent.add(number)
        self._wake.set()

    def abort(self, number: int) -> None:
        """A call that has not left yet never will."""
        if number in self._unsent:
            self._unsent.discard(number)
            return
        self._outbox.append((number, None))
        self._wake.set()

    def close(self) -> None:
        self._closed = True
        self.task.cancel()

    async def _run(self) -> None:
        while not self._closed:
            try:
                await self._live()
                cause = "the worker ended the stream"
            except grpc.aio.AioRpcError as error:
                cause = f"{error.code().name.lower()}: {error.details()}"
            except StreamBroken as error:
                cause = str(error)
            except Exception as error:
                _log.exception("a link failed", extra={"worker_id": self._target.worker_id})
                cause = f"{type(error).__name__}: {error}"
            self._outbox.clear()
            self._unsent.clear()
            cool_down = self._owner.link_down(self._target, cause)
            await asyncio.sleep(cool_down)

    async def _live(self) -> None:
        """From connecting to the end of the stream."""
        async with grpc.aio.insecure_channel(self._target.endpoint.address, options=CLIENT_OPTIONS) as channel:
            make_stub: Any = WorkerStub
            stub = make_stub(channel)
            self._check(await stub.GetInfo(pb.GetInfoRequest(), timeout=CONNECT_TIMEOUT_S))
            stream = stub.Serve()
            await stream.write(pb.RouterFrame(hello=pb.Hello(router_id=self._router_id)))
            writer = asyncio.get_running_loop().create_task(self._write(stream))
            try:
                self._seq = 0
                self._owner.link_up(self._target)
                read, end = stream.read, grpc.aio.EOF
                while (frame := await read()) is not end:
                    self._take(frame)
            finally:
                writer.cancel()
                stream.cancel()

    def _check(self, info: pb.WorkerInfo) -> None:
        endpoint = self._target.endpoint
        if info.instance_id != endpoint.instance_id:
            raise StreamBroken(f"another instance answers at {endpoint.address}")
        if info.model.name != endpoint.model:
            raise StreamBroken(f"the worker serves {info.model.name!r}, not {endpoint.model!r}")

    async def _write(self, stream: Any) -> None:
        outbox, unsent, wake = self._outbox, self._unsent, self._wake
        try:
            while True:
                while outbox:
                    number, call = outbox.popleft()
                    if call is None:
                        await stream.write(pb.RouterFrame(abort=pb.AbortCall(call=number)))
                    elif number in unsent:
                        unsent.discard(number)
                        await stream.write(generate_frame(number, call))
                wake.clear()
                await wake.wait()
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            pass  # the reader hears of it too, and deals with it
        except Exception:
            _log.exception("nothing more can be sent to a worker", extra={"worker_id": self._target.worker_id})
            stream.cancel()

    def _take(self, frame: pb.WorkerFrame) -> None:
        now = time.monotonic()
        self._seq += 1
        if frame.seq != self._seq:
            raise StreamBroken(f"frame {self._seq} is missing, {frame.seq} came")
        request_of = self._target.calls.get
        for wire in frame.deltas:
            request = request_of(wire.call)
            if request is None:
                continue
            try:
                request.take(delta_from_wire(wire), now)
            except Exception:
                _log.exception("a delta could not be passed on", extra={"request_id": request.call.request_id})
                self._owner.sink_broke(request)
