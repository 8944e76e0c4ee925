"""What the fleet says to a worker, over the worker's own gRPC service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Final, NoReturn

import grpc

from control_plane.contracts.errors import Unavailable
from control_plane.contracts.failure import Failure
from control_plane.contracts.identity import Peer
from control_plane.contracts.step import BlockSnapshot, EngineStep, TraceMode, TraceState
from control_plane.contracts.v1 import worker_pb2 as pb
from control_plane.contracts.v1.worker_pb2_grpc import WorkerStub
from control_plane.contracts.wire.convert import from_wire, to_wire
from control_plane.contracts.wire.failures import failures_from_wire
from control_plane.contracts.wire.secure import open_channel
from control_plane.contracts.wire.status import error_from
from control_plane.contracts.wire.steps import step_from_wire
from control_plane.contracts.worker import Load, RunningRequest, WorkerInfo

CALL_TIMEOUT_S: Final = 5.0
BLOCKS_TIMEOUT_S: Final = 15.0
"""The engine answers between two steps, and a long prefill is one."""
SLEEP_TIMEOUT_S: Final = 600.0
"""For hundreds of gigabytes of weights, from a disk where they were discarded."""
LOAD_INTERVAL_S: Final = 0.25


class WorkerClient:
    """One worker at one address; made and used inside one loop. Every method raises ``InferDeckError``.

    ``credentials`` is our own file, for a worker that wants to see it.
    """

    def __init__(self, address: str, credentials: str = "") -> None:
        self.address = address
        self._credentials = credentials
        self._open()

    def _open(self) -> None:
        self._channel = open_channel(self.address, self._credentials, Peer.WORKER)
        make_stub: Any = WorkerStub
        self._stub = make_stub(self._channel)

    async def reconnect(self) -> None:
        """From now on with the credentials as they are now: those of a channel do not change with their file."""
        if self._credentials:
            old = self._channel
            self._open()
            await old.close()

    async def info(self) -> WorkerInfo:
        return from_wire(await self._call(self._stub.GetInfo, pb.GetInfoRequest()), WorkerInfo)

    async def loads(self, interval_s: float = LOAD_INTERVAL_S) -> AsyncIterator[Load]:
        """The load now, after every change, and at least once a second."""
        call = self._stub.WatchLoad(pb.WatchLoadRequest(interval_s=interval_s))
        try:
            async for load in call:
                yield from_wire(load, Load)
        except grpc.aio.AioRpcError as error:
            raise error_from(error, peer=self.address) from None
        except asyncio.CancelledError:
            self._unless_cancelled()
        finally:
            call.cancel()

    async def requests(self) -> tuple[RunningRequest, ...]:
        """What runs there, whoever sent it."""
        listed = await self._call(self._stub.ListRequests, pb.ListRequestsRequest())
        return tuple(from_wire(request, RunningRequest) for request in listed.requests)

    async def drain(self) -> int:
        """Take no new requests; how many run."""
        return int((await self._call(self._stub.Drain, pb.DrainRequest())).in_flight)

    async def resume(self) -> None:
        """Take requests again."""
        await self._call(self._stub.Resume, pb.ResumeRequest())

    async def stop(self, grace_s: float) -> None:
        """End, after what runs or after the grace, in seconds."""
        await self._call(self._stub.Stop, pb.StopRequest(grace_s=grace_s))

    async def abort(self, request_id: str) -> bool:
        """End a request; False where the worker does not have it."""
        return bool((await self._call(self._stub.Abort, pb.AbortRequest(request_id=request_id))).found)

    async def read_clock(self) -> float:
        """The worker's wall clock."""
        return float((await self._call(self._stub.ReadClock, pb.ReadClockRequest())).now_unix)

    async def steps_of(self, request_id: str) -> tuple[EngineStep, ...]:
        """What the steps have of a request, as far as they are kept: other requests' rows are left out."""
        call = self._stub.WatchSteps(pb.WatchStepsRequest(request_id=request_id), timeout=CALL_TIMEOUT_S)
        try:
            return tuple([step_from_wire(step) async for frame in call for step in frame.steps])
        except grpc.aio.AioRpcError as error:
            raise error_from(error, peer=self.address) from None
        except asyncio.CancelledError:
            self._unless_cancelled()
        finally:
            call.cancel()

    async def step_frames(
        self, from_step: int, *, live: bool, last_steps: int = 0
    ) -> AsyncGenerator[pb.StepFrame, None]:
        """What the engine does, step by step, as the worker sends it: to be passed on."""
        call = self._stub.WatchSteps(pb.WatchStepsRequest(from_step=from_step, live=live, last_steps=last_steps))
        try:
            async for frame in call:
                yield frame
        except grpc.aio.AioRpcError as error:
            raise error_from(error, peer=self.address) from None
        except grpc.aio.UsageError:
            raise self._closed() from None
        except asyncio.CancelledError:
            self._unless_cancelled()
        finally:
            call.cancel()

    async def set_trace(self, mode: TraceMode, every: int) -> TraceState:
        """Trace no step, every n-th, or all; UNSPECIFIED only tells."""
        request = pb.SetTraceRequest(mode=f"TRACE_MODE_{mode.name}", every=every)
        return from_wire(await self._call(self._stub.SetTrace, request, BLOCKS_TIMEOUT_S), TraceState)

    async def inject(self, failure: Failure | None, *, heal: bool) -> tuple[Failure, ...]:
        """One more failure, after an end to those there are where ``heal``. Returns those that are on or to come.

        Raises Conflict for an engine that cannot be made to fail.
        """
        request = pb.InjectRequest(heal=heal, failure=None if failure is None else to_wire(failure, pb.Failure))
        return failures_from_wire(await self._call(self._stub.Inject, request))

    async def sleep(self, level: int, *, check: bool) -> tuple[bool, float]:
        """Put the engine to sleep: whether that changed something, and how long it took, in seconds. ``check``: only
        tell whether it would. Raises Conflict while requests run, and for an engine that can't."""
        answer = await self._call(self._stub.Sleep, pb.SleepRequest(level=level, check=check), SLEEP_TIMEOUT_S)
        return bool(answer.changed), float(answer.took_s)

    async def wake(self) -> tuple[bool, float]:
        """Have the engine take calls again, like ``sleep``."""
        answer = await self._call(self._stub.Wake, pb.WakeRequest(), SLEEP_TIMEOUT_S)
        return bool(answer.changed), float(answer.took_s)

    async def blocks(self) -> BlockSnapshot:
        """The whole KV cache now."""
        return from_wire(await self._call(self._stub.GetBlocks, pb.GetBlocksRequest(), BLOCKS_TIMEOUT_S), BlockSnapshot)

    async def close(self) -> None:
        await self._channel.close()

    async def _call(self, method: Any, request: Any, timeout_s: float = CALL_TIMEOUT_S) -> Any:
        try:
            return await method(request, timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            raise error_from(error, peer=self.address, waited_s=timeout_s) from None
        except grpc.aio.UsageError:
            raise self._closed() from None
        except asyncio.CancelledError:
            self._unless_cancelled()

    def _unless_cancelled(self) -> NoReturn:
        """Closing a channel cancels its calls, which looks to their callers as if they had been cancelled."""
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError
        raise self._closed() from None

    def _closed(self) -> Unavailable:
        return Unavailable(f"the connection to {self.address} is closed")
