"""The worker's gRPC services: the data plane of ``worker.proto``, health and reflection, on one port."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import math
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from control_plane.contracts.errors import Conflict, DropReason, InferDeckError, InvalidRequest, Unavailable
from control_plane.contracts.identity import Peer
from control_plane.contracts.v1 import worker_pb2 as pb
from control_plane.contracts.v1 import worker_pb2_grpc
from control_plane.contracts.wire.channel import SERVER_OPTIONS
from control_plane.contracts.wire.convert import from_wire, to_wire
from control_plane.contracts.wire.failures import failure_from_wire
from control_plane.contracts.wire.frames import frame_to_wire
from control_plane.contracts.wire.kv_events import kv_frame_to_wire
from control_plane.contracts.wire.secure import PeerGate, listen
from control_plane.contracts.wire.status import abort_with
from control_plane.contracts.wire.steps import StepFrames, step_frame_to_wire, trace_mode
from control_plane.contracts.worker import CallError, Generate, ModelInfo, WorkerInfo, WorkerState
from control_plane.tasks import Tasks
from workers.calls import CallStream, CallTable
from workers.engine.base import Engine, Fails
from workers.kv_watch import KvWatch
from workers.load import LoadMeter, progress_of
from workers.sleeper import Sleeper
from workers.status import WorkerStatus
from workers.step_watch import StepWatch
from workers.validation import check

_log = logging.getLogger(__name__)

PEERS = {
    "/": frozenset({Peer.GATEWAY, Peer.ROUTER, Peer.CONTROL_PLANE}),
    "/grpc.health.v1.Health/": frozenset(Peer),
}
"""Who may call what, by the certificate."""

SERVICE = "inferdeck.v1.Worker"
INTERVAL_S = 0.25
SHORTEST_INTERVAL_S = 0.02
HEARTBEAT_S = 1.0
_CHUNK = 1 << 20
_TICK_S = 0.5

ExtraServices = Callable[[grpc.aio.Server], Sequence[str] | None]
_Context = grpc.aio.ServicerContext[Any, Any]


def _parse_frame(data: bytes) -> pb.RouterFrame:
    """The frame, or an empty one for bytes that are none: a stream outlives what it can't read."""
    try:
        return pb.RouterFrame.FromString(data)
    except DecodeError:
        return pb.RouterFrame()


def _refuse_unless_ready(status: WorkerStatus) -> None:
    if status.state is WorkerState.READY:
        return
    status.unless_failed()
    raise Unavailable(f"the worker is {status.state.name.lower()}", reason=DropReason.DRAINING)


class WorkerServer:
    """Everything of a running worker that is on the network.

    ``info`` is what the worker is; its state comes from ``status``. ``request_stop`` is called with a grace in seconds
    when somebody asks the worker to end. ``extra_services`` mounts more services on the same server and returns their
    full names, for health and reflection. ``steps`` and ``kv`` were made before the engine started, if they
    were to hear all of it.
    """

    def __init__(
        self,
        engine: Engine,
        info: WorkerInfo,
        status: WorkerStatus,
        request_stop: Callable[[float], None],
        extra_services: ExtraServices | None = None,
        steps: StepWatch | None = None,
        kv: KvWatch | None = None,
    ) -> None:
        self.calls = CallTable(engine.abort)
        self._meter = LoadMeter(info.instance_id, engine.load, engine.pids)
        self._status = status
        self._steps = steps or StepWatch(engine)
        self._kv = kv or KvWatch(engine, info.instance_id)
        self._servicer = _Servicer(engine, info, status, self.calls, self._meter, request_stop, self._steps, self._kv)
        self._extra_services = extra_services
        self._health = health.aio.HealthServicer()
        self._services = [SERVICE]
        self._tasks = Tasks()
        self._server: grpc.aio.Server | None = None

    async def start(self, host: str, port: int, credentials: str = "") -> str:
        """Listen on ``host``; port 0 is any free one. With ``credentials`` (a file) only routers and the control plane
        get through. Returns the address. Raises RuntimeError if it is taken."""
        gates = (PeerGate(PEERS),) if credentials else ()
        self._server = server = grpc.aio.server(interceptors=gates, options=SERVER_OPTIONS)
        worker_pb2_grpc.add_WorkerServicer_to_server(self._servicer, server)  # type: ignore[no-untyped-call]
        server.add_registered_method_handlers(SERVICE, {"Serve": self._servicer.serve_handler()})
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        if self._extra_services is not None:
            self._services += self._extra_services(server) or ()
        reflection.enable_server_reflection((*self._services, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
        name = f"[{host}]" if ":" in host else host
        bound = listen(server, f"{name}:{port}", credentials)
        await self._report_health(self._status.state)
        self._status.listen(lambda state: self._tasks.spawn(self._report_health(state), "health"))
        await server.start()
        self._tasks.spawn(self._tick(), "load")
        return f"{name}:{bound}"

    async def end(self, grace_s: float = 1.0) -> None:
        """Write what waits, end the streams, close the port. Calls that still run must have been failed before."""
        self._servicer.close_streams()
        self._status.end()
        self._steps.end()
        self._kv.end()
        if self._server is not None:
            await self._server.stop(grace_s)
        await self._tasks.cancel()

    async def _tick(self) -> None:
        """Until cancelled. Of failures in a row the first is told: it may go on for as long as the engine lives."""
        failing = False
        while True:
            await asyncio.sleep(_TICK_S)
            try:
                self._meter.tick()
            except Exception:
                # Ended by it, rates and memory would stand still, and look as if they were read.
                if not failing:
                    _log.exception("the load could not be read")
                failing = True
            else:
                failing = False

    async def _report_health(self, state: WorkerState) -> None:
        serving = state is WorkerState.READY
        status = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        for name in ("", *self._services):
            await self._health.set(name, status)


class _Servicer(worker_pb2_grpc.WorkerServicer):
    """The service of ``worker.proto``, method by method."""

    def __init__(
        self,
        engine: Engine,
        info: WorkerInfo,
        status: WorkerStatus,
        calls: CallTable,
        meter: LoadMeter,
        request_stop: Callable[[float], None],
        steps: StepWatch,
        kv: KvWatch,
    ) -> None:
        assert info.model is not None
        self._engine = engine
        self._info = info
        self._model: ModelInfo = info.model
        self._status = status
        self._calls = calls
        self._meter = meter
        self._request_stop = request_stop
        self._steps = steps
        self._kv = kv
        self._sleeper = Sleeper(info.worker_id, engine, status, calls)
        self._step_frames = StepFrames()
        self._streams: set[CallStream] = set()

    def serve_handler(self) -> grpc.RpcMethodHandler[Any, Any]:
        """Serve with a parser that never fails; with the generated one a frame of wrong bytes would end the stream."""
        return grpc.stream_stream_rpc_method_handler(self.Serve, _parse_frame, pb.WorkerFrame.SerializeToString)

    def close_streams(self) -> None:
        for stream in self._streams:
            stream.close()

    async def Serve(self, frames: AsyncIterator[pb.RouterFrame], context: _Context) -> None:  # noqa: N802
        task = asyncio.current_task()
        assert task is not None
        stream = CallStream(self._calls, task.cancel)
        self._streams.add(stream)
        reader = asyncio.create_task(self._read(frames, stream))
        seq = 0
        try:
            while (deltas := await stream.take()) is not None:
                seq += 1
                await context.write(frame_to_wire(seq, time.time(), deltas))
        except asyncio.CancelledError:
            if not stream.overrun:
                raise
        finally:
            reader.cancel()
            self._streams.discard(stream)
            stream.abort_all()
        if stream.overrun:
            _log.warning("a router does not read: its stream is ended", extra={"router_id": stream.router_id})
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "the router does not read what it asked for")

    async def _read(self, frames: AsyncIterator[pb.RouterFrame], stream: CallStream) -> None:
        """The router's frames, until it ends the stream. No frame, however wrong, ends it."""
        try:
            async for frame in frames:
                kind = frame.WhichOneof("kind")
                if kind == "generate":
                    self._generate(frame.generate, stream)
                elif kind == "abort":
                    if (call := stream.numbers.get(frame.abort.call)) is not None:
                        self._calls.abort(call)
                elif kind == "hello":
                    stream.router_id = frame.hello.router_id
                else:
                    _log.warning("a frame that is none was ignored", extra={"router_id": stream.router_id})
        finally:
            stream.abort_all()
            stream.close()

    def _generate(self, wire: pb.Generate, stream: CallStream) -> None:
        number, request_id = wire.call, wire.request_id
        if number in stream.numbers:
            _log.warning("a second call with a number in use was ignored", extra={"request_id": request_id})
            return
        try:
            self._submit(wire, stream)
        except InferDeckError as error:
            _log.info("a call was refused", extra={"request_id": request_id, "reason": str(error.reason)})
            stream.fail(number, CallError(str(error.reason), error.message, error.param or ""))
        except Exception:
            _log.exception("a call could not be started", extra={"request_id": request_id})
            stream.fail(number, CallError(DropReason.INTERNAL_ERROR, "the worker could not start the call"))

    def _submit(self, wire: pb.Generate, stream: CallStream) -> None:
        _refuse_unless_ready(self._status)
        if not wire.HasField("sampling"):
            raise InvalidRequest("a call needs sampling parameters", param="sampling")
        asked = from_wire(wire, Generate)
        sampling = asked.sampling if asked.sampling.n else dataclasses.replace(asked.sampling, n=1)
        generate = dataclasses.replace(asked, call=self._calls.next_number(), sampling=sampling)
        check(generate, self._model)
        if self._calls.has_request(stream.router_id, generate.request_id):
            raise Conflict(f"request {generate.request_id} runs here already", param="request_id")
        call = self._calls.open(stream, wire.call, generate)
        try:
            self._engine.submit(generate, stream.push)
        except BaseException:
            self._calls.forget(call)
            raise

    async def GetInfo(self, request: pb.GetInfoRequest, context: _Context) -> pb.WorkerInfo:  # noqa: N802
        engine_pids, no_events = self._engine.pids(), self._kv.unavailable
        info = dataclasses.replace(
            self._info,
            engine_pid=engine_pids[0] if engine_pids else 0,
            state=self._status.state,
            state_reason=self._status.reason,
            kv_events=not no_events,
            kv_events_unavailable=no_events,
        )
        return to_wire(info, pb.WorkerInfo)

    async def GetTokenizer(  # noqa: N802
        self, request: pb.GetTokenizerRequest, context: _Context
    ) -> AsyncIterator[pb.FileChunk]:
        for file in sorted(self._engine.tokenizer_files(), key=lambda file: file.name):
            size = len(file.data)
            for start in range(0, max(size, 1), _CHUNK):
                data = file.data[start : start + _CHUNK]
                yield pb.FileChunk(name=file.name, size=size, data=data, last=start + _CHUNK >= size)

    async def WatchLoad(self, request: pb.WatchLoadRequest, context: _Context) -> AsyncIterator[pb.Load]:  # noqa: N802
        asked = request.interval_s
        usable = math.isfinite(asked) and asked > 0
        interval = min(max(asked, SHORTEST_INTERVAL_S), HEARTBEAT_S) if usable else INTERVAL_S
        idle = min(HEARTBEAT_S / 2, 2 * interval)
        sent: tuple[object, ...] | None = None
        sent_at = 0.0
        with self._status.changes() as changed:
            while True:
                load = self._meter.read(self._status.state, self._calls.finished, self._sleeper.level)
                progress, now = progress_of(load), time.monotonic()
                if progress != sent or now - sent_at >= HEARTBEAT_S - interval:
                    sent, sent_at = progress, now
                    yield to_wire(load, pb.Load)
                if self._status.over:
                    return
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(interval if load.running or load.waiting else idle):
                        await changed.wait()
                changed.clear()

    async def ListRequests(  # noqa: N802
        self, request: pb.ListRequestsRequest, context: _Context
    ) -> pb.ListRequestsResponse:
        return pb.ListRequestsResponse(requests=[to_wire(item, pb.RunningRequest) for item in self._calls.list()])

    async def ReadClock(self, request: pb.ReadClockRequest, context: Any) -> pb.ClockReading:  # noqa: N802
        return pb.ClockReading(now_unix=time.time())

    async def WatchSteps(  # noqa: N802
        self, request: pb.WatchStepsRequest, context: _Context
    ) -> AsyncIterator[pb.StepFrame]:
        if request.request_id:
            frames, to_message = self._steps.frames_of(request.request_id), step_frame_to_wire
        else:
            frames = self._steps.frames(request.from_step, live=request.live, last_steps=request.last_steps)
            to_message = self._step_frames.to_wire
        async with contextlib.aclosing(frames):
            async for frame in frames:
                yield to_message(frame)

    async def WatchKvEvents(  # noqa: N802
        self, request: pb.WatchKvEventsRequest, context: _Context
    ) -> AsyncIterator[pb.KvFrame]:
        async with contextlib.aclosing(self._kv.frames(request.from_seq, request.instance_id)) as frames:
            async for frame in frames:
                yield kv_frame_to_wire(frame)

    async def SetTrace(self, request: pb.SetTraceRequest, context: _Context) -> pb.TraceState:  # noqa: N802
        try:
            state = await self._steps.set_trace(trace_mode(request.mode), request.every)
        except InferDeckError as error:
            await abort_with(context, error)
        _log.info("trace", extra={"mode": state.mode.name.lower(), "every": state.every})
        return to_wire(state, pb.TraceState)

    async def Inject(self, request: pb.InjectRequest, context: _Context) -> pb.InjectResponse:  # noqa: N802
        engine = self._engine
        try:
            if not isinstance(engine, Fails):
                raise Conflict(f"the engine of this worker is {engine.name}: only a simulated one is made to fail")
            failure = failure_from_wire(request.failure) if request.HasField("failure") else None
            if request.heal:
                engine.heal()
            if failure is not None:
                engine.inject(failure)
                _log.warning("failure injected", extra={"kind": str(failure.kind), "after_s": failure.after_s})
        except InferDeckError as error:
            await abort_with(context, error)
        return pb.InjectResponse(failures=[to_wire(each, pb.Failure) for each in engine.failures()])

    async def GetBlocks(self, request: pb.GetBlocksRequest, context: _Context) -> pb.BlockSnapshot:  # noqa: N802
        try:
            return to_wire(await self._steps.blocks(), pb.BlockSnapshot)
        except InferDeckError as error:
            await abort_with(context, error)

    async def Abort(self, request: pb.AbortRequest, context: _Context) -> pb.AbortResponse:  # noqa: N802
        found = self._calls.abort_request(request.request_id)
        _log.info("abort asked for", extra={"request_id": request.request_id, "found": found})
        return pb.AbortResponse(found=found)

    async def Drain(self, request: pb.DrainRequest, context: _Context) -> pb.DrainResponse:  # noqa: N802
        if self._sleeper.level or not self._status.move(WorkerState.DRAINING, "drained by request"):
            await abort_with(context, Conflict(f"the worker is {self._status.state.name.lower()}"))
        _log.info("draining", extra={"in_flight": len(self._calls)})
        return pb.DrainResponse(in_flight=len(self._calls))

    async def Resume(self, request: pb.ResumeRequest, context: _Context) -> pb.ResumeResponse:  # noqa: N802
        if self._sleeper.level or not self._status.move(WorkerState.READY):
            await abort_with(context, Conflict(f"the worker is {self._status.state.name.lower()}"))
        _log.info("accepting requests again")
        return pb.ResumeResponse()

    async def Sleep(self, request: pb.SleepRequest, context: _Context) -> pb.SleepResponse:  # noqa: N802
        try:
            return to_wire(await self._sleeper.sleep(request.level, check=request.check), pb.SleepResponse)
        except InferDeckError as error:
            await abort_with(context, error)

    async def Wake(self, request: pb.WakeRequest, context: _Context) -> pb.WakeResponse:  # noqa: N802
        try:
            return to_wire(await self._sleeper.wake(), pb.WakeResponse)
        except InferDeckError as error:
            await abort_with(context, error)

    async def Stop(self, request: pb.StopRequest, context: _Context) -> pb.StopResponse:  # noqa: N802
        self._request_stop(request.grace_s if math.isfinite(request.grace_s) else 0.0)
        return pb.StopResponse()
