"""What a worker asks of its engine while it starts, with engines that do not keep the contract."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from control_plane.contracts.errors import SettingsError, WorkerLost
from control_plane.contracts.v1 import worker_pb2, worker_pb2_grpc
from control_plane.contracts.worker import CallError, Delta, Done, Generate, ModelInfo, WorkerState
from control_plane.contracts.worker_spec import Announcement
from tests.scripted_worker import read_announcement, scripted_spec
from workers import lifecycle
from workers.engine.base import EngineDead, Sink
from workers.engine.scripted import ScriptedEngine
from workers.lifecycle import EXIT_ENGINE_DEAD, EXIT_NOT_STARTED, EXIT_OK, Worker, prove


class Answering(ScriptedEngine):
    """Answers every call with the given delta, or never."""

    answer: Delta | None = None
    asked = ""

    def submit(self, call: Generate, sink: Sink) -> None:
        self.asked = call.request_id
        if self.answer is not None:
            self.answer.call = call.call
            sink([self.answer])


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Delta(0, error=CallError("internal_error", "broken")), "broken"),
        (Delta(0, done=Done(1, 0, 0)), "ended empty"),
    ],
)
async def test_an_engine_that_generates_nothing_is_not_proved(tmp_path: Path, answer: Delta, message: str) -> None:
    engine = Answering(scripted_spec(tmp_path))
    engine.answer = answer
    with pytest.raises(EngineDead, match=message):
        await prove(engine)


async def test_a_worker_s_own_first_call_says_what_it_is(tmp_path: Path) -> None:
    engine = Answering(scripted_spec(tmp_path))
    engine.answer = Delta(0, done=Done(1, 0, 1))
    await prove(engine)
    assert engine.asked == "self-test"


async def test_an_engine_that_never_answers_is_not_proved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "PROOF_TIMEOUT_S", 0.05)
    with pytest.raises(EngineDead, match="nothing within"):
        await prove(Answering(scripted_spec(tmp_path)))


async def announced(worker: Worker, accept: Callable[[Announcement], bool]) -> Announcement:
    async with asyncio.timeout(20):
        while True:
            found = read_announcement(worker.spec)
            if found is not None and accept(found):
                return found
            await asyncio.sleep(0.01)


def serving(announcement: Announcement) -> bool:
    return announcement.phase == "serving"


async def live(worker: Worker, until: Callable[[Announcement], bool]) -> tuple[Announcement, int]:
    """Run the worker until it announces that, then stop it: the announcement and the exit code."""
    task = asyncio.create_task(worker.live())
    found = await announced(worker, until)
    worker.request_stop(0.0)
    return found, await task


async def test_an_engine_that_cannot_be_proved_never_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = scripted_spec(tmp_path)
    monkeypatch.setattr(lifecycle, "PROOF_TIMEOUT_S", 0.05)
    monkeypatch.setattr(lifecycle, "make_engine", Answering)
    found, code = await live(Worker(spec), lambda announcement: announcement.phase == "failed")
    assert code == EXIT_NOT_STARTED
    assert found.address == ""
    assert "nothing within" in found.detail


class Reporting(ScriptedEngine):
    """Says how far it is, and waits there."""

    def __init__(self, spec: Any) -> None:
        super().__init__(spec)
        self.on_progress: Callable[[str, float], None] = lambda _detail, _done: None

    async def start(self) -> ModelInfo:
        await asyncio.to_thread(self.on_progress, "converting the model", 0.5)
        await asyncio.sleep(600)
        return await super().start()


async def test_how_far_a_start_is_gets_announced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "make_engine", Reporting)
    found, code = await live(Worker(scripted_spec(tmp_path)), lambda announcement: announcement.progress > 0)
    assert (found.phase, found.detail, found.progress) == ("loading", "converting the model", 0.5)
    assert code == EXIT_OK


@pytest.mark.parametrize(
    ("written", "place"),
    [
        ({"": "c.toml:2", "engine_args": "c.toml:5", "engine_args.speed": "c.toml:7"}, "c.toml:7: "),
        ({"": "c.toml:2", "engine_args": "c.toml:5"}, "c.toml:5: "),
        ({}, ""),
    ],
)
async def test_a_wrong_engine_argument_is_told_with_its_line(
    tmp_path: Path, written: dict[str, str], place: str
) -> None:
    worker = Worker(scripted_spec(tmp_path, engine="sim", speed="fast", written=written))
    found, code = await live(worker, lambda announcement: announcement.phase == "failed")
    assert code == EXIT_NOT_STARTED
    assert found.detail == f"{place}engine_args.speed can't be 'fast'"
    assert found.refuses_settings


class Publishing(ScriptedEngine):
    """Has a service of its own."""

    def published(self, server: Any) -> Sequence[str]:
        async def say(request: bytes, _context: Any) -> bytes:
            return request + b"!"

        handler = grpc.unary_unary_rpc_method_handler(say)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Echo", {"Say": handler}),))
        return ["test.Echo"]


async def test_an_engine_may_publish_services_on_the_same_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "make_engine", Publishing)
    worker = Worker(scripted_spec(tmp_path))
    task = asyncio.create_task(worker.live())
    found = await announced(worker, serving)
    async with asyncio.timeout(20):
        async with grpc.aio.insecure_channel(found.address) as channel:
            assert await channel.unary_unary("/test.Echo/Say")(b"hi") == b"hi!"
            call = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo()
            await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
            names = {service.name for service in (await call.read()).list_services_response.service}
            assert "test.Echo" in names
            call.cancel()
        worker.request_stop(0.0)
        assert await task == EXIT_OK


class Breaking(ScriptedEngine):
    """Breaks on its way to sleep, as vLLM may."""

    async def sleep(self, level: int) -> None:
        asyncio.get_running_loop().call_later(0.1, self._die, False)
        raise WorkerLost("no memory")


async def test_one_that_breaks_on_its_way_to_sleep_ends_so_that_another_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "make_engine", Breaking)
    worker = Worker(scripted_spec(tmp_path))
    task = asyncio.create_task(worker.live())
    found = await announced(worker, serving)
    states: list[WorkerState] = []
    worker._status.listen(states.append)
    async with asyncio.timeout(20), grpc.aio.insecure_channel(found.address) as channel:
        make_stub: Any = worker_pb2_grpc.WorkerStub
        with pytest.raises(grpc.aio.AioRpcError, match="no memory"):
            await make_stub(channel).Sleep(worker_pb2.SleepRequest(level=1))
        assert await task == EXIT_ENGINE_DEAD
    assert states == [WorkerState.ASLEEP, WorkerState.FAILED]
    last = read_announcement(worker.spec)
    assert last is not None
    assert last.phase == "failed"


async def test_the_earliest_deadline_of_several_stops_counts(tmp_path: Path) -> None:
    worker = Worker(scripted_spec(tmp_path))
    task = asyncio.create_task(worker.live())
    await announced(worker, serving)
    async with asyncio.timeout(20):
        worker.request_stop(0.0)
        worker.request_stop(3600.0)
        assert await task == EXIT_OK


async def test_why_a_start_failed_is_announced_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(spec: Any) -> Any:
        raise SettingsError("vLLM has no engine argument 'max_num_seqz'", hint="did you mean max_num_seqs?")

    monkeypatch.setattr(lifecycle, "make_engine", refuse)
    found, code = await live(Worker(scripted_spec(tmp_path)), lambda announcement: announcement.phase == "failed")
    assert code == EXIT_NOT_STARTED
    assert found.detail == "vLLM has no engine argument 'max_num_seqz' (hint: did you mean max_num_seqs?)"


async def test_a_worker_that_finds_no_room_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(announcement: Announcement, path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(Announcement, "save", full)
    spec = scripted_spec(tmp_path)
    assert await Worker(spec).live() == EXIT_NOT_STARTED
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert record.__dict__["cause"] == f"the disk is full: no room for {spec.announce_path}"
    assert record.exc_info is None
