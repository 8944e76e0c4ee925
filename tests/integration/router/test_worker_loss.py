"""Worker processes that are killed, restarted and stopped while calls run."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack
from pathlib import Path

from control_plane.contracts.errors import DropReason, WorkerLost
from control_plane.contracts.fleet import RequestPhase, WorkerPhase
from tests.integration.router.rig import rig, until, worker_requests
from tests.scripted_worker import ScriptedWorker, scripted_worker


async def two_workers(stack: AsyncExitStack, directory: Path, **fields: object) -> dict[str, ScriptedWorker]:
    starts = [
        stack.enter_async_context(scripted_worker(directory, worker_id=name, **({"delay_s": 0.01} | fields)))
        for name in "ab"
    ]
    return dict(zip("ab", await asyncio.gather(*starts), strict=True))


async def test_killed_before_the_first_token_the_call_runs_elsewhere_without_a_word(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        workers = await two_workers(stack, tmp_path)
        made = await stack.enter_async_context(rig(list(workers.values())))
        handle, sink = made.submit({"tokens": 5, "prefill_s": 0.5}, request_id="r")
        plain_handle, plain = made.submit({"tokens": 50, "prefill_s": 0.5}, stream=False)
        victim = handle.worker_id
        await until_runs(workers[victim], "r")
        workers[victim].signal(signal.SIGKILL)
        await sink.end()
        await plain.end()
        assert sink.error is None
        assert plain.error is None
        assert (sink.tokens, plain.tokens) == (5, 50)
        assert handle.worker_id != victim
        await until(lambda: "r" in made.fleet.ended)
        view = made.fleet.ended["r"]
        assert (view.retries, view.phase, view.worker_id) == (1, RequestPhase.FINISHED, handle.worker_id)
        made.check_idle()
        assert plain_handle.worker_id in workers


async def test_killed_after_some_tokens_the_answer_goes_on_and_nothing_is_repeated(tmp_path: Path) -> None:
    """S06, and better: one answer, across two workers."""
    async with AsyncExitStack() as stack:
        workers = await two_workers(stack, tmp_path)
        made = await stack.enter_async_context(rig(list(workers.values())))
        _, sink = made.submit({"text": "ab😀 cdefg", "die_after": 4}, request_id="r")
        await sink.end()
        assert sink.error is None
        assert sink.text == "ab😀 cdefg"
        done = sink.deltas[-1].done
        assert done is not None
        assert sink.tokens == done.output_tokens == len("ab😀 cdefg".encode())
        await until(lambda: "r" in made.fleet.ended)
        ended = made.fleet.ended["r"]
        assert (ended.output_tokens, ended.reason, ended.retries) == (done.output_tokens, "stop", 1)
        assert ended.prompt_tokens == done.prompt_tokens
        assert sum(worker.process.returncode is None for worker in workers.values()) == 1
        made.check_idle()


async def test_a_stop_string_across_the_loss_is_found(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        workers = await two_workers(stack, tmp_path)
        made = await stack.enter_async_context(rig(list(workers.values())))
        _, sink = made.submit({"text": "one STOP two", "die_after": 6}, stop=("STOP",))
        await sink.end()
        assert sink.error is None
        assert sink.text == "one "
        finish = sink.deltas[-1].finish
        assert finish is not None
        assert finish.stop_text == "STOP"


async def test_one_bad_request_does_not_kill_worker_after_worker(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        workers = await two_workers(stack, tmp_path)
        made = await stack.enter_async_context(rig(list(workers.values()), retries=0))
        _, sink = made.submit({"tokens": 9, "die_after": 3, "die_again": True}, request_id="r")
        await sink.end()
        assert isinstance(sink.error, WorkerLost)
        assert sink.tokens == 3
        await until(lambda: "r" in made.fleet.ended)
        assert await workers[made.fleet.ended["r"].worker_id].wait() == 1
        assert sum(worker.process.returncode is None for worker in workers.values()) == 1
        _, after = made.submit({"tokens": 2})
        await after.end()
        assert after.error is None
        made.check_idle()


async def test_streams_of_a_killed_worker_and_those_of_the_other_go_on(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        workers = await two_workers(stack, tmp_path)
        made = await stack.enter_async_context(rig(list(workers.values())))
        calls = [made.submit({"tokens": 80}) for _ in range(8)]
        for _, sink in calls:
            await sink.begun()
        homes = [handle.worker_id for handle, _ in calls]
        assert sorted(homes) == ["a"] * 4 + ["b"] * 4
        workers["a"].signal(signal.SIGKILL)
        for _, sink in calls:
            await sink.end()
            assert sink.error is None
            assert sink.tokens == 80
        made.check_idle()


async def test_a_worker_restarted_at_the_same_address_is_another_and_is_found_again(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(scripted_worker(tmp_path, worker_id="a", delay_s=0.005))
        made = await stack.enter_async_context(rig([first]))
        _, before = made.submit({"tokens": 2})
        await before.end()
        first.signal(signal.SIGKILL)
        await first.wait()
        _, waiting = made.submit({"tokens": 2})
        port = int(first.address.rpartition(":")[2])
        (tmp_path / "second").mkdir()
        second = await stack.enter_async_context(
            scripted_worker(tmp_path / "second", worker_id="a", delay_s=0.005, port=port)
        )
        assert second.address == first.address
        assert not waiting.ended.is_set(), "the fleet has not named the new instance yet"
        await made.fleet.add(second)
        await waiting.end()
        assert waiting.error is None
        calls = [made.submit({"tokens": 2})[1] for _ in range(5)]
        for sink in calls:
            await sink.end()
            assert sink.error is None
        made.check_idle()


async def test_a_stopping_worker_finishes_what_it_can(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        workers = await two_workers(stack, tmp_path)
        made = await stack.enter_async_context(rig(list(workers.values())))
        calls = [made.submit({"tokens": 60}) for _ in range(6)]
        for _, sink in calls:
            await sink.begun()
        workers["a"].signal(signal.SIGTERM)
        later = [made.submit({"tokens": 2}) for _ in range(6)]
        for _, sink in calls + later:
            await sink.end()
            assert sink.error is None
        assert await workers["a"].wait() == 0
        made.check_idle()


async def test_when_every_worker_dies_the_budget_ends_it_and_the_queue_does_not_hang(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        workers = await two_workers(stack, tmp_path)
        made = await stack.enter_async_context(rig(list(workers.values()), retries=1, queue_timeout_s=1.0))
        _, poison = made.submit({"tokens": 9, "die_after": 0})
        await poison.end()
        assert isinstance(poison.error, WorkerLost)
        assert all([await worker.wait() != 0 for worker in workers.values()])
        for name in workers:
            made.fleet.change(name, phase=WorkerPhase.FAILED)
        _, waiting = made.submit({"tokens": 1})
        await waiting.end()
        assert waiting.error is not None
        assert waiting.error.reason is DropReason.NO_CAPACITY
        made.check_idle()


async def test_a_frozen_worker_is_no_dead_worker(tmp_path: Path) -> None:
    """Stopped for a while (a long step, a swapped-out machine): its streams wait, and go on."""
    async with AsyncExitStack() as stack:
        workers = await two_workers(stack, tmp_path)
        made = await stack.enter_async_context(rig(list(workers.values())))
        handle, sink = made.submit({"tokens": 100})
        await sink.begun()
        frozen = workers[handle.worker_id]
        frozen.signal(signal.SIGSTOP)
        made.fleet.change(handle.worker_id, phase=WorkerPhase.LOST)
        try:
            others = [made.submit({"tokens": 2}) for _ in range(4)]
            await until(lambda: made.router.dispatcher.targets.by_worker(handle.worker_id).candidate.ready is False)
            for _ in range(4):
                other, other_sink = made.submit({"tokens": 2})
                assert other.worker_id != handle.worker_id
                await other_sink.end()
        finally:
            frozen.signal(signal.SIGCONT)
        await sink.end()
        assert sink.error is None
        for _, other_sink in others:
            await other_sink.end()
            assert other_sink.error is None


async def until_runs(worker: ScriptedWorker, request_id: str) -> None:
    async with asyncio.timeout(20):
        while request_id not in await worker_requests(worker.address):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
