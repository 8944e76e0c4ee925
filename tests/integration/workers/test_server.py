"""The worker's services over real gRPC, served from this process."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
import pytest_asyncio
from google.protobuf import descriptor_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from control_plane.contracts.errors import DropReason
from control_plane.contracts.v1 import worker_pb2 as pb
from control_plane.contracts.wire.channel import CLIENT_OPTIONS
from control_plane.contracts.wire.convert import to_wire
from control_plane.contracts.worker import CallError, FinishReason, Generate, Sampling, WorkerState
from tests.frames import deltas_from_wire
from tests.scripted_worker import ScriptedServer, scripted_server
from tests.worker_client import TOKENIZER, WorkerClient, script, worker_client
from workers import calls as calls_module
from workers import server as server_module
from workers.engine.base import TokenizerFile
from workers.server import SERVICE
from workers.tokenizer_bundle import tokenizer_hash


@pytest_asyncio.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with scripted_server(delay_s=0.002, max_num_seqs=8) as running:
        yield running


@pytest_asyncio.fixture
async def client(server: ScriptedServer) -> AsyncIterator[WorkerClient]:
    async with worker_client(server.address) as connected:
        yield connected


async def test_a_stream_comes_in_frames_that_are_numbered(client: WorkerClient) -> None:
    async with client.link() as link:
        reply = await (await link.generate(max_tokens=10, ignore_eos=True)).end()
        assert len(reply.token_ids()) == 10
        assert [frame.seq for frame in link.frames] == list(range(1, len(link.frames) + 1))
        assert [frame.sent_unix for frame in link.frames] == sorted(frame.sent_unix for frame in link.frames)


async def test_one_step_is_one_frame_for_all_calls_of_a_router(client: WorkerClient) -> None:
    async with client.link() as link:
        replies = [await link.generate(f"{n}", max_tokens=30, ignore_eos=True) for n in range(4)]
        await asyncio.gather(*(reply.end() for reply in replies))
        assert max(len(deltas_from_wire(frame)) for frame in link.frames) >= 4
        assert len(link.frames) < 4 * 30


async def test_two_routers_with_equal_numbers_get_their_own(client: WorkerClient) -> None:
    async with client.link("one") as one, client.link("two") as two:
        first = await one.generate(script(text="first"), number=7)
        second = await two.generate(script(text="second"), number=7)
        await asyncio.gather(first.end(), second.end())
        assert (first.text(), second.text()) == ("first", "second")


async def test_usage_and_cached_tokens_are_counted(client: WorkerClient) -> None:
    async with client.link() as link:
        prompt = TOKENIZER.encode("word " * 40)
        cold = (await (await link.generate(prompt, max_tokens=3)).end()).last.done
        warm = (await (await link.generate(prompt, max_tokens=3)).end()).last.done
        assert cold is not None
        assert warm is not None
        assert (cold.prompt_tokens, cold.output_tokens, cold.cached_tokens) == (len(prompt), 3, 0)
        assert 0 < warm.cached_tokens < len(prompt)


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"max_tokens": 0}, "invalid_request", "max_tokens"),
        ({"temperature": float("nan")}, "invalid_request", "temperature"),
        ({"prompt": []}, "invalid_request", "prompt"),
        ({"prompt": [10**6]}, "invalid_request", "prompt"),
        ({"prompt": [1] * 4096}, "context_length_exceeded", "prompt"),
        ({"request_id": ""}, "invalid_request", "request_id"),
        ({"prompt": script(refuse="overloaded")}, "overloaded", "script"),
    ],
)
async def test_a_refusal_says_why(client: WorkerClient, fields: dict[str, object], code: str, param: str) -> None:
    async with client.link() as link:
        reply = await (await link.generate(**fields)).end()  # type: ignore[arg-type]
        error = reply.last.error
        assert error is not None
        assert (error.code, error.param) == (code, param)
        assert len((await (await link.generate(max_tokens=2)).end()).token_ids()) == 2
    load = await client.load()
    assert (load.finished, load.running) == (1, 0)


async def test_n_zero_means_one(client: WorkerClient) -> None:
    async with client.link() as link:
        assert len((await (await link.generate(n=0, max_tokens=2)).end()).token_ids()) == 2


async def test_a_request_id_that_a_router_uses_is_refused_and_the_first_lives(
    client: WorkerClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with client.link() as link:
        first = await link.generate(script(tokens=30, delay_s=0.01), request_id="same", max_tokens=99)
        async with asyncio.timeout(10):
            await first.begun.wait()
        second = await (await link.generate(request_id="same")).end()
        assert second.error_code == DropReason.CONFLICT
        told = [vars(record) for record in caplog.records if record.message == "a call was refused"]
        assert [(record["request_id"], record["reason"]) for record in told] == [("same", "conflict")]
        assert len((await first.end()).token_ids()) == 30
        again = await (await link.generate(request_id="same", max_tokens=2)).end()
        assert len(again.token_ids()) == 2


async def test_two_routers_with_equal_request_ids_get_their_own(client: WorkerClient) -> None:
    async with client.link("one") as one, client.link("two") as two:
        waiting = await one.generate(script(prefill_s=60), request_id="same")
        other = await two.generate(script(prefill_s=60), request_id="same")
        await client.until(lambda load: load.running == 2)
        listed = (await client.stub.ListRequests(pb.ListRequestsRequest())).requests
        assert {(item.router_id, item.request_id) for item in listed} == {("one", "same"), ("two", "same")}
        assert (await client.stub.Abort(pb.AbortRequest(request_id="same"))).found
        for reply in (waiting, other):
            assert (await reply.end()).finish().reason is FinishReason.ABORT


class Unread:
    """The context of a stream whose router does not read: what is written never gets away."""

    def __init__(self) -> None:
        self.writing = asyncio.Event()
        self.aborted_with: grpc.StatusCode | None = None

    async def write(self, frame: pb.WorkerFrame) -> None:
        self.writing.set()
        await asyncio.Event().wait()

    async def abort(self, code: grpc.StatusCode, details: str) -> None:
        self.aborted_with = code


async def test_a_router_that_does_not_read_loses_its_stream_and_its_calls(
    server: ScriptedServer, client: WorkerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls_module, "BACKLOG", 20)
    asked = Generate(1, "unread", TOKENIZER.encode(script(tokens=1500)), Sampling(max_tokens=1500))

    async def frames() -> AsyncIterator[pb.RouterFrame]:
        yield pb.RouterFrame(generate=to_wire(asked, pb.Generate))
        await asyncio.Event().wait()

    unread: Any = Unread()
    async with asyncio.timeout(20):
        await server.server._servicer.Serve(frames(), unread)
    assert unread.writing.is_set()
    assert unread.aborted_with is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert (await client.until_idle()).generated_tokens < 1500


class TestWrongFrames:
    async def test_none_of_them_ends_the_stream(self, server: ScriptedServer) -> None:
        async with grpc.aio.insecure_channel(server.address, options=CLIENT_OPTIONS) as channel:
            call = channel.stream_stream(f"/{SERVICE}/Serve")()
            for data in (b"", b"\xff", b"\x0a\x05abc", b"\x12\x02\x08", b"\x12\x00", bytes(range(256))):
                await call.write(data)
            await call.write(pb.RouterFrame(abort=pb.AbortCall(call=999)).SerializeToString())
            good = pb.Generate(call=5, request_id="good", prompt_token_ids=[1], sampling=pb.Sampling(max_tokens=3))
            await call.write(pb.RouterFrame(generate=good).SerializeToString())
            deltas: list[pb.Delta] = []
            async with asyncio.timeout(10):
                while not any(delta.call == 5 and delta.HasField("done") for delta in deltas):
                    deltas.extend(pb.WorkerFrame.FromString(await call.read()).deltas)
            others = [delta for delta in deltas if delta.call != 5]
            assert [delta.error.code for delta in others] == ["invalid_request"]
            call.cancel()

    async def test_a_number_in_use_is_ignored_and_the_first_call_lives(self, client: WorkerClient) -> None:
        async with client.link() as link:
            reply = await link.generate(script(text="first answer", delay_s=0.05), number=3)
            twice = pb.Generate(call=3, request_id="x", prompt_token_ids=[1], sampling=pb.Sampling(max_tokens=3))
            await link.send(pb.RouterFrame(generate=twice))
            assert (await reply.end()).text() == "first answer"
        assert (await client.until_idle()).finished == 1

    async def test_an_engine_that_trips_over_a_call_costs_only_that_call(
        self, server: ScriptedServer, client: WorkerClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with client.link() as link:
            with monkeypatch.context() as broken:
                broken.setattr(server.engine, "submit", lambda *_: 1 / 0)
                reply = await (await link.generate()).end()
            assert reply.error_code == DropReason.INTERNAL_ERROR
            assert "division" not in str(reply.last.error)
            assert (await (await link.generate()).end()).last.done is not None


class TestAbort:
    async def test_by_number_on_the_stream(self, client: WorkerClient) -> None:
        async with client.link() as link:
            reply = await link.generate(script(tokens=4000, delay_s=0.002), max_tokens=4000)
            async with asyncio.timeout(10):
                await reply.begun.wait()
            await link.abort(link.number_of(reply))
            assert (await reply.end()).finish().reason is FinishReason.ABORT
            await client.until_idle()
            await link.abort(link.number_of(reply))
            assert (await (await link.generate(max_tokens=1)).end()).last.done is not None

    @pytest.mark.parametrize("stream", [True, False])
    async def test_by_request_id_from_outside_before_the_first_token(self, client: WorkerClient, stream: bool) -> None:
        async with client.link() as link:
            reply = await link.generate(script(prefill_s=60), request_id="abc", stream=stream)
            await client.until(lambda load: load.running == 1)
            assert (await client.stub.Abort(pb.AbortRequest(request_id="abc"))).found
            ended = await reply.end()
            assert ended.finish().reason is FinishReason.ABORT
            assert ended.last.done is not None
            assert ended.last.done.output_tokens == 0
            assert not (await client.stub.Abort(pb.AbortRequest(request_id="abc"))).found
            await client.until_idle()

    async def test_waiting_calls_never_start(self, client: WorkerClient) -> None:
        async with client.link() as link:
            running = [await link.generate(script(prefill_s=60)) for _ in range(8)]
            waiting = await link.generate("waits", request_id="waits")
            await client.until(lambda load: (load.running, load.waiting) == (8, 1))
            await link.abort(link.number_of(waiting))
            assert (await waiting.end()).finish().output_tokens == 0
            for reply in running:
                await link.abort(link.number_of(reply))
            assert (await client.until_idle()).finished == 9

    @pytest.mark.parametrize("how", ["cancel", "half_close"])
    async def test_the_end_of_a_stream_ends_its_calls_and_no_others(self, client: WorkerClient, how: str) -> None:
        async with client.link("stays") as stays:
            kept = await stays.generate(script(tokens=60, delay_s=0.005), max_tokens=99)
            async with client.link("goes") as goes:
                for n in range(3):
                    await goes.generate(script(tokens=4000, delay_s=0.002), max_tokens=4000, request_id=f"lost-{n}")
                await client.until(lambda load: load.running == 4)
                if how == "half_close":
                    await goes.close()
                    async with asyncio.timeout(10):
                        await goes.lost.wait()
                    assert goes.status is grpc.StatusCode.OK
                else:
                    goes.cancel()
                await client.until(lambda load: load.running == 1)
            assert len((await kept.end()).token_ids()) == 60
        await client.until_idle()


class TestDrain:
    async def test_what_runs_ends_and_new_calls_are_refused(self, client: WorkerClient) -> None:
        async with client.link() as link:
            running = await link.generate(script(tokens=40, delay_s=0.005), max_tokens=99)
            async with asyncio.timeout(10):
                await running.begun.wait()
            assert (await client.stub.Drain(pb.DrainRequest())).in_flight == 1
            assert (await client.stub.Drain(pb.DrainRequest())).in_flight == 1
            refused = await (await link.generate()).end()
            assert refused.error_code == DropReason.DRAINING
            assert (await client.load()).state == pb.WORKER_STATE_DRAINING
            assert len((await running.end()).token_ids()) == 40
            await client.stub.Resume(pb.ResumeRequest())
            await client.stub.Resume(pb.ResumeRequest())
            assert (await (await link.generate(max_tokens=1)).end()).last.done is not None
            assert (await client.load()).state == pb.WORKER_STATE_READY

    async def test_a_stopping_worker_does_not_come_back(self, server: ScriptedServer, client: WorkerClient) -> None:
        server.status.move(WorkerState.STOPPING)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await client.stub.Resume(pb.ResumeRequest())
        assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        async with client.link() as link:
            assert (await (await link.generate()).end()).error_code == DropReason.DRAINING


async def test_a_dead_engine_refuses_and_fails_every_call(server: ScriptedServer, client: WorkerClient) -> None:
    async with client.link() as link:
        running = await link.generate(script(prefill_s=60))
        await client.until(lambda load: load.running == 1)
        server.status.move(WorkerState.FAILED, "gone")
        server.server.calls.fail_all(CallError(DropReason.ENGINE_DEAD, "gone"))
        assert (await running.end()).error_code == DropReason.ENGINE_DEAD
        assert (await (await link.generate()).end()).error_code == DropReason.ENGINE_DEAD
        info = await client.stub.GetInfo(pb.GetInfoRequest())
        assert (info.state, info.state_reason) == (pb.WORKER_STATE_FAILED, "gone")


async def test_stop_is_passed_on_with_its_grace(server: ScriptedServer, client: WorkerClient) -> None:
    await client.stub.Stop(pb.StopRequest(grace_s=2.5))
    await client.stub.Stop(pb.StopRequest(grace_s=float("nan")))
    assert server.stops == [2.5, 0.0]


async def test_info_says_what_runs_here(server: ScriptedServer, client: WorkerClient) -> None:
    info = await client.stub.GetInfo(pb.GetInfoRequest())
    assert (info.worker_id, info.engine, info.state) == ("scripted-1", "scripted", pb.WORKER_STATE_READY)
    assert info.instance_id == server.info.instance_id
    assert info.model.name == "scripted-model"
    assert info.model.max_num_seqs == 8
    assert info.engine_pid == 0


async def test_the_tokenizer_arrives_whole_and_hashes_to_what_info_says(
    server: ScriptedServer, client: WorkerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = (*server.engine.tokenizer_files(), TokenizerFile("vocab.json", bytes(range(256)) * 10_000))
    monkeypatch.setattr(server.engine, "tokenizer_files", lambda: (*large, TokenizerFile("empty.txt", b"")))
    files: dict[str, bytes] = {}
    ended: list[str] = []
    async for chunk in client.stub.GetTokenizer(pb.GetTokenizerRequest()):
        files[chunk.name] = files.get(chunk.name, b"") + chunk.data
        if chunk.last:
            assert len(files[chunk.name]) == chunk.size
            ended.append(chunk.name)
    assert files == {file.name: file.data for file in server.engine.tokenizer_files()}
    assert ended == sorted(files)
    known = [TokenizerFile(name, data) for name, data in files.items() if name not in ("vocab.json", "empty.txt")]
    assert tokenizer_hash(known) == server.model.tokenizer_hash


async def test_requests_are_listed_while_they_run(client: WorkerClient) -> None:
    async with client.link("g1") as link:
        begun = await link.generate(script(tokens=4000, delay_s=0.002), max_tokens=4000, request_id="a", priority=-2)
        await link.generate(script(prefill_s=60), request_id="b")
        async with asyncio.timeout(10):
            await begun.begun.wait()
        await client.until(lambda load: load.running == 2)
        listed = {item.request_id: item for item in (await client.stub.ListRequests(pb.ListRequestsRequest())).requests}
        assert set(listed) == {"a", "b"}
        assert (listed["a"].first_token_seen, listed["b"].first_token_seen) == (True, False)
        assert (listed["a"].router_id, listed["a"].priority, listed["a"].max_tokens) == ("g1", -2, 4000)
        assert listed["a"].output_tokens >= 1
    await client.until_idle()
    assert not (await client.stub.ListRequests(pb.ListRequestsRequest())).requests


class TestSleep:
    async def test_it_takes_no_calls_until_it_is_woken(self, client: WorkerClient) -> None:
        async with client.link() as link:
            slept = await client.stub.Sleep(pb.SleepRequest(level=2))
            assert slept.changed
            load = await client.load()
            assert (load.state, load.sleep_level) == (pb.WORKER_STATE_ASLEEP, 2)
            refused = await (await link.generate(max_tokens=2)).end()
            assert refused.error_code == DropReason.DRAINING
            assert not (await client.stub.Sleep(pb.SleepRequest(level=2))).changed
            for method, request in ((client.stub.Drain, pb.DrainRequest()), (client.stub.Resume, pb.ResumeRequest())):
                with pytest.raises(grpc.aio.AioRpcError) as error:
                    await method(request)
                assert error.value.code() is grpc.StatusCode.FAILED_PRECONDITION
            woke = await client.stub.Wake(pb.WakeRequest())
            assert woke.changed
            assert len((await (await link.generate(max_tokens=2)).end()).token_ids()) == 2
        load = await client.load()
        assert (load.state, load.sleep_level) == (pb.WORKER_STATE_READY, 0)

    async def test_it_does_not_sleep_while_requests_run(self, client: WorkerClient) -> None:
        async with client.link() as link:
            reply = await link.generate(script(tokens=4000, delay_s=0.01), max_tokens=4000)
            async with asyncio.timeout(10):
                await reply.begun.wait()
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await client.stub.Sleep(pb.SleepRequest(level=1))
            assert error.value.code() is grpc.StatusCode.FAILED_PRECONDITION
            assert "1 request runs here" in (error.value.details() or "")
            assert (await client.load()).state == pb.WORKER_STATE_READY


class TestWatchLoad:
    async def test_a_change_of_state_is_told_without_waiting_for_the_next_sample(
        self, server: ScriptedServer, client: WorkerClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(server_module, "HEARTBEAT_S", 600.0)
        call = client.stub.WatchLoad(pb.WatchLoadRequest(interval_s=600.0))
        assert (await call.read()).state == pb.WORKER_STATE_READY
        server.status.move(WorkerState.DRAINING)
        async with asyncio.timeout(20):
            assert (await call.read()).state == pb.WORKER_STATE_DRAINING
        call.cancel()

    async def test_nothing_new_is_a_heartbeat_every_second(self, client: WorkerClient) -> None:
        call = client.stub.WatchLoad(pb.WatchLoadRequest(interval_s=0.05))
        loads = [await call.read() for _ in range(3)]
        call.cancel()
        gaps = [b.sampled_unix - a.sampled_unix for a, b in itertools.pairwise(loads)]
        assert min(gaps) > 0.5
        assert max(gaps) < 10

    @pytest.mark.parametrize("interval", [0.0, -1.0, float("nan"), float("inf"), 1e9])
    async def test_a_strange_interval_still_gives_loads(self, client: WorkerClient, interval: float) -> None:
        call = client.stub.WatchLoad(pb.WatchLoadRequest(interval_s=interval))
        async with asyncio.timeout(5):
            await call.read()
            await call.read()
        call.cancel()

    async def test_the_numbers_add_up(self, client: WorkerClient) -> None:
        async with client.link() as link:
            prompt = script(delay_s=0.1)
            reply = await link.generate(prompt, max_tokens=20, ignore_eos=True)
            busy = await client.until(lambda load: load.running == 1 and load.generated_tokens > 3)
            assert 0 < busy.used_blocks <= busy.total_blocks
            assert busy.kv_usage == pytest.approx(busy.used_blocks / busy.total_blocks)
            await reply.end()
        idle = await client.until_idle()
        assert (idle.generated_tokens, idle.prompt_tokens, idle.finished) == (20, len(prompt), 1)
        assert idle.rss_bytes > 10_000_000
        assert idle.cpu_s > 0


async def test_a_load_that_cannot_be_read_once_is_read_again_and_told_of_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server_module, "_TICK_S", 0.001)
    read_again = asyncio.Event()
    ticks = itertools.count(1)
    async with scripted_server() as server:

        def tick() -> None:
            if next(ticks) <= 3:
                raise ZeroDivisionError
            read_again.set()

        monkeypatch.setattr(server.server._meter, "tick", tick)
        async with asyncio.timeout(30):
            await read_again.wait()
    assert caplog.messages.count("the load could not be read") == 1


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.getMessage(), record.__dict__.get("task", "")) for record in caplog.records]


async def test_a_state_that_could_not_be_told_to_health_is_told_to_the_log(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server.server._health, "set", lambda *_: 1 / 0)
    server.status.move(WorkerState.DRAINING, "test")
    async with asyncio.timeout(30):
        while ("a task failed", "health") not in told(caplog):  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_sixty_four_calls_at_once_leave_nothing_behind(client: WorkerClient) -> None:
    async with client.link() as one, client.link("two") as two:
        replies = [await (one, two)[n % 2].generate(f"{n}", max_tokens=16, ignore_eos=True) for n in range(64)]
        await client.until(lambda load: load.running == 8 and load.waiting > 0)
        await asyncio.gather(*(reply.end() for reply in replies))
        assert [len(reply.token_ids()) for reply in replies] == [16] * 64
        idle = await client.until_idle()
        assert (idle.finished, idle.generated_tokens) == (64, 64 * 16)
    assert not (await client.stub.ListRequests(pb.ListRequestsRequest())).requests


class TestHealthAndReflection:
    async def test_serving_only_while_ready(self, server: ScriptedServer) -> None:
        async with grpc.aio.insecure_channel(server.address) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            watch = stub.Watch(health_pb2.HealthCheckRequest(service=SERVICE))
            assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
            server.status.move(WorkerState.DRAINING)
            assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
            whole = await stub.Check(health_pb2.HealthCheckRequest())
            assert whole.status == health_pb2.HealthCheckResponse.NOT_SERVING
            server.status.move(WorkerState.READY)
            assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
            watch.cancel()

    async def test_the_services_describe_themselves(self, server: ScriptedServer) -> None:
        async with grpc.aio.insecure_channel(server.address) as channel:
            call = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo()
            await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
            names = {service.name for service in (await call.read()).list_services_response.service}
            assert {SERVICE, "grpc.health.v1.Health"} <= names
            await call.write(reflection_pb2.ServerReflectionRequest(file_containing_symbol=SERVICE))
            (data,) = (await call.read()).file_descriptor_response.file_descriptor_proto
            file = descriptor_pb2.FileDescriptorProto.FromString(data)
            assert "Serve" in [method.name for service in file.service for method in service.method]
            call.cancel()


async def test_a_taken_port_is_an_error(server: ScriptedServer) -> None:
    port = int(server.address.rpartition(":")[2])
    with pytest.raises(RuntimeError):
        async with scripted_server(port=port):
            pass
