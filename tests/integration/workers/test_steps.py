"""Steps and blocks over a worker's gRPC service."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import replace

import grpc
import pytest
import pytest_asyncio

from control_plane.contracts.errors import Conflict, InferDeckError, InvalidRequest
from control_plane.contracts.step import BlockSnapshot, EngineStep, StepKind, StepRow, TraceMode, TraceState
from control_plane.contracts.v1 import worker_pb2 as pb
from control_plane.contracts.wire.convert import from_wire
from control_plane.contracts.wire.status import error_from
from control_plane.contracts.wire.steps import step_from_wire
from control_plane.fleet.worker_client import WorkerClient
from tests.scripted_worker import ScriptedServer, scripted_server
from workers.step_watch import NO_TRACE, StepWatch

STEP = EngineStep(
    1, 2.5, rows=(StepRow("a", StepKind.PREFILL, 3, 0, 9, joined=True, new_blocks=(4,), blocks=1),), batch=1
)


@pytest_asyncio.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with scripted_server() as running:
        yield running


@pytest_asyncio.fixture
async def client(server: ScriptedServer) -> AsyncIterator[WorkerClient]:
    connected = WorkerClient(server.address)
    yield connected
    await connected.close()


class Told:
    """What an engine that traces adds to another."""

    state = TraceState(TraceMode.FULL, step=1)

    def trace(self) -> TraceState:
        return self.state

    async def set_trace(self, mode: TraceMode, every: int) -> TraceState:
        self.state = TraceState(mode, every)
        return self.state

    async def blocks(self) -> BlockSnapshot:
        return BlockSnapshot(7, cached_free=(3, 1), cached_free_blocks=2)


def tracing(server: ScriptedServer) -> StepWatch:
    watch = server.server._steps
    watch._engine = Told()  # type: ignore[assignment]
    return watch


async def test_an_engine_without_a_trace_says_so(client: WorkerClient) -> None:
    [frame] = [frame async for frame in client.step_frames(0, live=True)]
    assert frame.trace.unavailable == NO_TRACE
    assert (await client.set_trace(TraceMode.UNSPECIFIED, 0)).unavailable == NO_TRACE
    for call in (client.set_trace(TraceMode.FULL, 0), client.blocks()):
        with pytest.raises(Conflict):
            await call


async def test_a_real_engine_is_not_made_to_fail(client: WorkerClient) -> None:
    with pytest.raises(Conflict, match="the engine of this worker is scripted"):
        await client.inject(None, heal=True)


async def test_steps_blocks_and_the_trace_come_as_they_are(server: ScriptedServer, client: WorkerClient) -> None:
    watch = tracing(server)
    watch.receive([STEP])
    frames = client.step_frames(0, live=True)
    first = await anext(frames)
    assert [from_wire(step, EngineStep) for step in first.steps] == [STEP]
    assert first.HasField("base")
    assert (await client.set_trace(TraceMode.SAMPLED, 4)).every == 4
    changed = await anext(frames)
    assert (changed.trace.mode, list(changed.steps), changed.HasField("base")) == (pb.TRACE_MODE_SAMPLED, [], False)
    await frames.aclose()
    with pytest.raises(InvalidRequest, match="at least 2"):
        await client.set_trace(TraceMode.SAMPLED, 1)
    assert await client.blocks() == await Told().blocks()
    assert await client.steps_of("a") == (STEP,)
    assert await client.steps_of("b") == ()


async def test_a_request_s_steps_are_narrow_and_a_watchers_stay_whole(
    server: ScriptedServer, client: WorkerClient
) -> None:
    watch = tracing(server)
    two = replace(STEP, rows=(*STEP.rows, StepRow("b", StepKind.DECODE, 1, 5, 5)), batch=2)
    watch.receive([two, replace(STEP, step=2), replace(STEP, step=3)])
    assert await client.steps_of("b") == (replace(two, rows=(two.rows[0], two.rows[1])),)
    assert [step.step for step in await client.steps_of("a")] == [1, 2, 3]
    assert (await client.steps_of("a"))[0] == replace(two, rows=two.rows[:1])
    whole = [step async for frame in client.step_frames(0, live=False) for step in frame.steps]
    assert step_from_wire(whole[0]) == two
    last = [step.step async for frame in client.step_frames(0, live=False, last_steps=2) for step in frame.steps]
    assert last == [2, 3]


async def test_a_watchers_stream_ends_with_the_worker(server: ScriptedServer, client: WorkerClient) -> None:
    tracing(server)
    frames = client.step_frames(0, live=True)
    await anext(frames)
    server.server._steps.end()
    assert [frame async for frame in frames] == []


async def test_the_clock(client: WorkerClient) -> None:
    before = time.time()
    assert before <= await client.read_clock() <= time.time()


async def test_an_unknown_mode_is_an_invalid_request(server: ScriptedServer) -> None:
    async with grpc.aio.insecure_channel(server.address) as channel:
        call = channel.unary_unary(
            "/inferdeck.v1.Worker/SetTrace",
            request_serializer=pb.SetTraceRequest.SerializeToString,
            response_deserializer=pb.TraceState.FromString,
        )
        request = pb.SetTraceRequest.FromString(b"\x08\x63")  # mode 99
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call(request)
        error: InferDeckError = error_from(refused.value)
        assert isinstance(error, InvalidRequest)
        assert error.param == "mode"
