"""Whole workers: forked by the preloader, serving both protocols, killed in every way."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio
from smg_grpc_proto import vllm_engine_pb2 as published
from smg_grpc_proto import vllm_engine_pb2_grpc
from tokenizers import Tokenizer

from control_plane.contracts.v1 import worker_pb2 as pb
from control_plane.contracts.worker_spec import Announcement, WorkerSpec, start_ticks
from tests.real_vllm.conftest import real_spec
from tests.real_vllm.test_death import leftovers
from tests.worker_client import worker_client
from workers import weights

pytestmark = pytest.mark.asyncio(loop_scope="session")

START_TIMEOUT_S = 200.0
TIMEOUT_S = 60.0
PROMPT = "The capital of France is"


@dataclass
class Fleet:
    """A preloader and the two workers that it has forked."""

    preloader: asyncio.subprocess.Process
    workers: list[Announcement]
    specs: list[WorkerSpec]
    import_s: float
    ready_s: list[float]
    tokenizer: Tokenizer

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text).ids)


def announcement(spec: WorkerSpec) -> Announcement | None:
    path = Path(spec.announce_path)
    return Announcement.load(path) if path.exists() else None


async def announced(spec: WorkerSpec) -> Announcement:
    async with asyncio.timeout(START_TIMEOUT_S):
        while (found := announcement(spec)) is None or found.phase == "loading":  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    assert found.phase == "serving", found.detail
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    folder = tmp_path_factory.mktemp("fleet")
    specs = [real_spec(folder, f"real-{number}") for number in (1, 2)]
    folder_of_model = weights.resolve(specs[0].source, cache_dir=Path(specs[0].cache_dir)).folder
    ours, theirs = socket.socketpair()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "workers.preloader", "--fd", str(theirs.fileno()), pass_fds=[theirs.fileno()]
    )
    theirs.close()
    reader, writer = await asyncio.open_connection(sock=ours)

    async def hear() -> dict[str, Any]:
        message: dict[str, Any] = json.loads(await asyncio.wait_for(reader.readline(), START_TIMEOUT_S))
        return message

    workers: list[Announcement] = []
    try:
        ready = await hear()
        assert ready["op"] == "ready"
        begun = time.monotonic()
        for spec in specs:
            spec.save(folder / f"{spec.worker_id}.spec.json")
            writer.write(json.dumps({"op": "spawn", "spec": str(folder / f"{spec.worker_id}.spec.json")}).encode())
            writer.write(b"\n")
        pids = [(await hear())["pid"] for _ in specs]
        ready_s = []
        for waiting in asyncio.as_completed([announced(spec) for spec in specs]):
            workers.append(await waiting)
            ready_s.append(time.monotonic() - begun)
        workers.sort(key=lambda worker: worker.worker_id)
        assert [worker.pid for worker in workers] == pids
        tokenizer = Tokenizer.from_file(str(folder_of_model / "tokenizer.json"))
        yield Fleet(process, workers, specs, ready["import_s"], ready_s, tokenizer)
    finally:
        writer.close()
        await asyncio.wait_for(process.wait(), TIMEOUT_S)
        for worker in workers:
            if start_ticks(worker.pid) == worker.start_ticks:
                os.kill(worker.pid, signal.SIGKILL)


async def gone(pid: int) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while start_ticks(pid):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_two_workers_start_from_one_import(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        seconds = " and ".join(f"{value:.1f}" for value in fleet.ready_s)
        print(f"\nimports took {fleet.import_s:.1f} s, two workers were ready {seconds} s after that")
    for worker, spec in zip(fleet.workers, fleet.specs, strict=True):
        assert os.getsid(worker.pid) == worker.pid
        assert worker.engine_pids
        assert os.stat(spec.log_path).st_mode & 0o777 == 0o600


async def test_both_serve_at_once_and_say_the_same(fleet: Fleet) -> None:
    texts = []
    for worker in fleet.workers:
        async with worker_client(worker.address) as client, client.link("test") as link:
            replies = [
                await link.generate(fleet.encode(PROMPT), max_tokens=12, temperature=0.0, seed=number)
                for number in range(4)
            ]
            texts += [(await reply.end(TIMEOUT_S)).text() for reply in replies]
    assert len(set(texts)) == 1
    assert texts[0].startswith(" Paris")


async def test_a_worker_tells_what_it_is_and_how_loaded(fleet: Fleet) -> None:
    worker = fleet.workers[0]
    async with worker_client(worker.address) as client:
        info = await client.stub.GetInfo(pb.GetInfoRequest())
        assert (info.engine, info.state, info.engine_pid) == ("vllm", pb.WORKER_STATE_READY, worker.engine_pids[0])
        assert info.engine_version
        assert (info.model.block_size, info.model.vocab_size, info.model.max_context) == (32, 49_152, 1024)
        assert len(info.model.revision) == len(info.model.tokenizer_hash) == 64
        files = {chunk.name async for chunk in client.stub.GetTokenizer(pb.GetTokenizerRequest())}
        assert {"tokenizer.json", "tokenizer_config.json", "generation_config.json"} <= files
        assert not any("safetensors" in name or name == "manifest.json" for name in files)


@pytest_asyncio.fixture(loop_scope="session")
async def engine_stub(fleet: Fleet) -> AsyncIterator[Any]:
    async with grpc.aio.insecure_channel(fleet.workers[0].address) as channel:
        yield vllm_engine_pb2_grpc.VllmEngineStub(channel)


async def test_the_published_protocol_generates(fleet: Fleet, engine_stub: Any) -> None:
    ids = fleet.encode(PROMPT)
    request = published.GenerateRequest(request_id="smg-1", stream=True)
    request.tokenized.input_ids.extend(ids)
    request.sampling_params.CopyFrom(published.SamplingParams(temperature=0.0, max_tokens=6))
    tokens: list[int] = []
    count = 0
    complete = None
    async for answer in engine_stub.Generate(request, timeout=TIMEOUT_S):
        if answer.WhichOneof("response") == "chunk":
            tokens += answer.chunk.token_ids
            count += answer.chunk.completion_tokens
        elif answer.WhichOneof("response") == "complete":
            complete = answer.complete
    assert complete is not None
    assert (complete.prompt_tokens, complete.finish_reason) == (len(ids), "length")
    assert count == len(tokens) == 6
    assert fleet.tokenizer.decode(tokens).startswith(" Paris")


async def test_the_published_protocol_aborts(fleet: Fleet, engine_stub: Any) -> None:
    request = published.GenerateRequest(request_id="smg-2", stream=True)
    request.tokenized.input_ids.extend(fleet.encode(PROMPT))
    request.sampling_params.CopyFrom(published.SamplingParams(temperature=0.0, max_tokens=900, ignore_eos=True))
    call = engine_stub.Generate(request, timeout=TIMEOUT_S)
    assert await call.read() is not grpc.aio.EOF
    await engine_stub.Abort(published.AbortRequest(request_ids=["smg-2"]))
    async with asyncio.timeout(TIMEOUT_S):
        while await call.read() is not grpc.aio.EOF:
            pass
    async with worker_client(fleet.workers[0].address) as client, asyncio.timeout(TIMEOUT_S):
        async for load in client.stub.WatchLoad(pb.WatchLoadRequest(interval_s=0.05)):
            if not (load.running or load.waiting or load.used_blocks):
                break


async def test_the_published_protocol_describes_the_engine(fleet: Fleet, engine_stub: Any) -> None:
    health = await engine_stub.HealthCheck(published.HealthCheckRequest(), timeout=TIMEOUT_S)
    assert health.healthy
    model = await engine_stub.GetModelInfo(published.GetModelInfoRequest(), timeout=TIMEOUT_S)
    assert (model.vocab_size, model.max_context_length) == (49_152, 1024)
    await engine_stub.GetServerInfo(published.GetServerInfoRequest(), timeout=TIMEOUT_S)
    await engine_stub.GetLoads(published.GetLoadsRequest(), timeout=TIMEOUT_S)


async def test_the_published_protocol_sends_the_tokenizer(engine_stub: Any) -> None:
    from smg_grpc_proto.generated import common_pb2

    size = 0
    async for chunk in engine_stub.GetTokenizer(common_pb2.GetTokenizerRequest(), timeout=TIMEOUT_S):
        size += len(chunk.data)
    assert size > 100_000


async def test_a_killed_worker_takes_its_core_with_it(fleet: Fleet) -> None:
    worker = fleet.workers[1]
    os.kill(worker.pid, signal.SIGKILL)
    await gone(worker.pid)
    begun = time.monotonic()
    for pid in worker.engine_pids:
        await gone(pid)
    assert time.monotonic() - begun < 10
    assert not leftovers(worker.pid)


async def test_a_killed_core_ends_its_worker_with_a_reason(fleet: Fleet) -> None:
    worker, spec = fleet.workers[0], fleet.specs[0]
    async with worker_client(worker.address) as client, client.link("test") as link:
        reply = await link.generate(fleet.encode(PROMPT), max_tokens=900, ignore_eos=True)
        await asyncio.wait_for(reply.begun.wait(), TIMEOUT_S)
        os.kill(worker.engine_pids[0], signal.SIGKILL)
        assert (await reply.end(TIMEOUT_S)).error_code == "engine_dead"
    await gone(worker.pid)
    last = announcement(spec)
    assert last is not None
    assert last.phase == "failed"
    assert "was killed by SIGKILL" in last.detail
    assert fleet.preloader.returncode is None
