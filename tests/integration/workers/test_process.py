"""A worker as a process of its own: how it starts, and every way in which it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path

import grpc
import pytest

from control_plane.contracts.errors import DropReason
from control_plane.contracts.v1 import worker_pb2 as pb
from control_plane.contracts.worker_spec import start_ticks
from tests.scripted_worker import (
    ROOT,
    announced,
    end_process,
    read_announcement,
    scripted_spec,
    scripted_worker,
    start_worker_process,
)
from tests.worker_client import Link, Reply, WorkerClient, script, worker_client

LONG = script(tokens=4000, delay_s=0.01)


async def begun(link: Link, prompt: str = LONG) -> Reply:
    reply = await link.generate(prompt, max_tokens=4000)
    async with asyncio.timeout(20):
        await reply.begun.wait()
    return reply


async def lost(link: Link) -> grpc.StatusCode | None:
    async with asyncio.timeout(20):
        await link.lost.wait()
    return link.status


async def test_it_announces_loading_then_serving_then_nothing(tmp_path: Path) -> None:
    spec = scripted_spec(tmp_path, start_s=0.3)
    process = await start_worker_process(spec)
    try:
        loading = await announced(spec, process, "loading")
        assert loading.address == ""
        assert loading.start_ticks == start_ticks(process.pid)
        serving = await announced(spec, process, "serving")
        assert serving.instance_id == loading.instance_id
        assert serving.engine_pids == []
        async with worker_client(serving.address) as client:
            info = await client.stub.GetInfo(pb.GetInfoRequest())
            assert (info.instance_id, info.pid) == (serving.instance_id, process.pid)
            assert info.load_s >= 0.3
            assert (await client.load()).state == pb.WORKER_STATE_READY
        process.terminate()
        assert await process.wait() == 0
        assert read_announcement(spec) is None
        assert sorted(os.listdir(tmp_path)) == ["scripted-1.log", "scripted-1.spec.json"]
    finally:
        await end_process(process)


async def test_a_new_start_is_a_new_instance(tmp_path: Path) -> None:
    ids = set()
    for _ in range(2):
        async with scripted_worker(tmp_path) as worker:
            ids.add(worker.announcement.instance_id)
            worker.signal(signal.SIGTERM)
            assert await worker.wait() == 0
    assert len(ids) == 2


async def test_sigterm_lets_what_runs_end(tmp_path: Path) -> None:
    async with scripted_worker(tmp_path) as worker, worker_client(worker.address) as client, client.link() as link:
        reply = await begun(link, script(tokens=30, delay_s=0.02))
        worker.signal(signal.SIGTERM)
        await client.until(lambda load: load.state == pb.WORKER_STATE_STOPPING)
        assert (await (await link.generate()).end()).error_code == DropReason.DRAINING
        assert len((await reply.end()).token_ids()) == 30
        assert await lost(link) is grpc.StatusCode.OK
        assert await worker.wait() == 0


async def test_a_sigterm_to_one_that_is_stopping_does_not_wait(tmp_path: Path) -> None:
    async with scripted_worker(tmp_path) as worker, worker_client(worker.address) as client, client.link() as link:
        reply = await begun(link, script(tokens=4000, delay_s=1))
        await client.stub.Stop(pb.StopRequest(grace_s=3600))
        await client.until(lambda load: load.state == pb.WORKER_STATE_STOPPING)
        worker.signal(signal.SIGTERM)
        assert (await reply.end()).error_code == DropReason.WORKER_LOST
        assert await worker.wait() == 0


@pytest.mark.parametrize("grace", [0.0, 0.3])
async def test_stop_aborts_what_runs_after_its_grace(tmp_path: Path, grace: float) -> None:
    async with scripted_worker(tmp_path) as worker, worker_client(worker.address) as client, client.link() as link:
        reply = await begun(link)
        await client.stub.Stop(pb.StopRequest(grace_s=grace))
        assert (await reply.end()).error_code == DropReason.WORKER_LOST
        assert await lost(link) is grpc.StatusCode.OK
        assert await worker.wait() == 0


async def test_stop_during_a_drain_ends_when_the_last_call_ends(tmp_path: Path) -> None:
    async with scripted_worker(tmp_path) as worker, worker_client(worker.address) as client, client.link() as link:
        reply = await begun(link, script(tokens=50, delay_s=0.01))
        await client.stub.Drain(pb.DrainRequest())
        await client.stub.Stop(pb.StopRequest(grace_s=60))
        assert len((await reply.end()).token_ids()) == 50
        assert await worker.wait() == 0


async def test_sigterm_while_loading_ends_at_once(tmp_path: Path) -> None:
    spec = scripted_spec(tmp_path, start_s=60.0)
    process = await start_worker_process(spec)
    try:
        await announced(spec, process, "loading")
        process.terminate()
        async with asyncio.timeout(20):
            assert await process.wait() == 0
        assert read_announcement(spec) is None
    finally:
        await end_process(process)


async def test_an_engine_that_dies_is_told_to_all_and_ends_the_process(tmp_path: Path) -> None:
    async with scripted_worker(tmp_path) as worker, worker_client(worker.address) as client, client.link() as link:
        watch = client.stub.WatchLoad(pb.WatchLoadRequest(interval_s=1.0))
        other = await begun(link)
        fatal = await link.generate(script(tokens=9, engine_dies_after=3), max_tokens=99)
        await asyncio.gather(fatal.end(), other.end())
        assert {fatal.error_code, other.error_code} == {DropReason.ENGINE_DEAD}
        assert len(fatal.token_ids()) == 3
        states = [load.state async for load in watch]
        assert states[-1] == pb.WORKER_STATE_FAILED
        assert await worker.wait() == 70
        announcement = read_announcement(worker.spec)
        assert announcement is not None
        assert (announcement.phase, announcement.detail) == ("failed", "died by its script")


async def test_a_process_that_dies_cuts_its_streams(tmp_path: Path) -> None:
    async with scripted_worker(tmp_path) as worker, worker_client(worker.address) as client, client.link() as link:
        reply = await link.generate(script(tokens=9, die_after=3), max_tokens=99)
        assert await lost(link) is grpc.StatusCode.UNAVAILABLE
        assert len(reply.token_ids()) == 3
        assert not reply.ended.is_set()
        assert await worker.wait() == 1


async def test_kill_9_is_seen_at_once(tmp_path: Path) -> None:
    async with scripted_worker(tmp_path) as worker, worker_client(worker.address) as client, client.link() as link:
        await begun(link)
        worker.signal(signal.SIGKILL)
        assert await lost(link) is grpc.StatusCode.UNAVAILABLE
        assert await worker.wait() == -signal.SIGKILL


async def test_a_router_that_is_killed_takes_its_calls_with_it(tmp_path: Path) -> None:
    async with scripted_worker(tmp_path) as worker, worker_client(worker.address) as client, client.link() as mine:
        kept = await begun(mine)
        router = await asyncio.create_subprocess_exec(
            sys.executable, "-c", ROUTER, worker.address, cwd=ROOT, stdout=asyncio.subprocess.PIPE
        )
        assert router.stdout is not None
        assert await router.stdout.readline() == b"begun\n"
        await client.until(lambda load: load.running == 4)
        router.kill()
        await router.wait()
        await client.until(lambda load: load.running == 1)
        assert not kept.ended.is_set()


ROUTER = """
import asyncio, sys
from tests.worker_client import script, worker_client

async def main():
    async with worker_client(sys.argv[1]) as client, client.link("killed") as link:
        prompt = script(tokens=4000, delay_s=0.01)
        replies = [await link.generate(prompt, max_tokens=4000, request_id=f"killed-{n}") for n in range(3)]
        for reply in replies:
            await reply.begun.wait()
        print("begun", flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_sixty_four_streams_of_two_routers_end_at_zero(tmp_path: Path) -> None:
    async with (
        scripted_worker(tmp_path, max_num_seqs=32, delay_s=0.002) as worker,
        worker_client(worker.address) as one,
        worker_client(worker.address) as two,
        one.link("one") as first,
        two.link("two") as second,
    ):
        replies = [await (first, second)[n % 2].generate(f"{n}", max_tokens=32, ignore_eos=True) for n in range(64)]
        await asyncio.gather(*(reply.end() for reply in replies))
        assert [len(reply.token_ids()) for reply in replies] == [32] * 64
        idle = await one.until_idle()
        assert (idle.finished, idle.generated_tokens) == (64, 64 * 32)


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({"fail_start": "no room for the cache"}, "no room for the cache"),
        ({"engine": "nope"}, "no engine 'nope'"),
        ({"speed": 9}, "no argument 'speed'"),
    ],
)
async def test_a_worker_that_can_not_start_says_why(tmp_path: Path, fields: dict[str, object], cause: str) -> None:
    spec = scripted_spec(tmp_path, **fields)
    process = await start_worker_process(spec)
    try:
        async with asyncio.timeout(30):
            assert await process.wait() == 1
        announcement = read_announcement(spec)
        assert announcement is not None
        assert announcement.phase == "failed"
        assert cause in announcement.detail
    finally:
        await end_process(process)


async def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = await start_worker_process(spec := scripted_spec(tmp_path, port=port))
        try:
            async with asyncio.timeout(30):
                assert await process.wait() == 1
            announcement = read_announcement(spec)
            assert announcement is not None
            assert str(port) in announcement.detail
        finally:
            await end_process(process)


async def test_a_spec_that_is_none_is_a_usage_error(tmp_path: Path) -> None:
    path = tmp_path / "spec.json"
    path.write_text('{"worker_id": 1, "colour": "red"}')
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "workers", "--spec", str(path), cwd=ROOT, stderr=asyncio.subprocess.PIPE
    )
    _, stderr = await process.communicate()
    assert process.returncode == 2
    assert b"spec.json is not a worker's spec" in stderr


async def test_prompts_are_not_in_the_log(tmp_path: Path) -> None:
    async with scripted_worker(tmp_path) as worker, worker_client(worker.address) as client, client.link() as link:
        await (await link.generate("SENTINEL2 " + script(text="SENTINEL3"))).end()
        await (await link.generate("SENTINEL2 " + script(refuse="overloaded"))).end()
        await (await link.generate("SENTINEL2 " + script(tokns=1))).end()
        await (await link.generate("SENTINEL2", max_tokens=0)).end()
        worker.signal(signal.SIGTERM)
        await worker.wait()
        assert "SENTINEL" not in worker.log
        assert '"component": "worker"' in worker.log


async def test_nothing_of_a_worker_is_left_in_its_session(tmp_path: Path) -> None:
    async with scripted_worker(tmp_path) as worker, worker_client(worker.address) as client:
        assert isinstance(client, WorkerClient)
        session = worker.pid
        worker.signal(signal.SIGTERM)
        await worker.wait()
    alive = [
        int(entry.name)
        for entry in os.scandir("/proc")
        if entry.name.isdigit() and _session_of(int(entry.name)) == session
    ]
    assert alive == []


def _session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0
