"""What the simulator does beyond the contract of every engine (``tests/contract``)."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from control_plane.contracts.block_hash import block_hashes
from control_plane.contracts.block_tables import BlockTables
from control_plane.contracts.errors import InferDeckError, SettingsError
from control_plane.contracts.failure import Failure, FailureKind
from control_plane.contracts.kv_events import KvBatch, KvFrame
from control_plane.contracts.kv_mirror import KvMirror
from control_plane.contracts.step import EngineStep, StepKind, TraceMode
from control_plane.contracts.worker import Delta, FinishReason, Generate, Sampling
from tests.scripted_worker import scripted_spec
from tests.worker_client import Reply
from workers.engine.base import TracesSteps
from workers.engine.modelless.tokenizer import ByteTokenizer, builtin_files
from workers.engine.sim.engine import SimEngine

TIMEOUT_S = 30.0
TOKENIZER = ByteTokenizer(builtin_files())


class Run:
    def __init__(self, engine: SimEngine) -> None:
        self.engine = engine
        self.steps: list[EngineStep] = []
        self._replies: dict[int, Reply] = {}
        self._numbers = itertools.count(1)
        engine.on_steps = self.steps.extend

    def sink(self, deltas: Sequence[Delta]) -> None:
        for delta in deltas:
            self._replies[delta.call].take(delta)

    def submit(self, prompt: str, request_id: str = "", **sampling: Any) -> tuple[int, Reply]:
        number = next(self._numbers)
        reply = self._replies[number] = Reply()
        asked = Sampling(**{"max_tokens": 16, "ignore_eos": True, **sampling})
        call = Generate(number, request_id or f"r{number}", TOKENIZER.encode(prompt), asked, arrival_unix=time.time())
        self.engine.submit(call, self.sink)
        return number, reply

    async def ask(self, prompt: str, **fields: Any) -> Reply:
        return await self.submit(prompt, **fields)[1].end(TIMEOUT_S)

    async def script(self, **script: Any) -> Reply:
        return await self.ask(json.dumps({"script": script}), max_tokens=1000, ignore_eos=False)


@asynccontextmanager
async def running(tmp_path: Path, **arguments: Any) -> AsyncIterator[Run]:
    values: dict[str, Any] = {"profile": "h100-llama-3.1-8b", "speed": 100.0, "max_context": 2048}
    values |= {"exit_process": False, "scripts": True}
    engine = SimEngine(scripted_spec(tmp_path, engine="sim", **(values | arguments)))
    run = Run(engine)
    try:
        await engine.start()
        yield run
    finally:
        await engine.stop()


async def test_it_says_that_it_is_simulated(tmp_path: Path) -> None:
    async with running(tmp_path, profile="h100-llama-3.1-70b-tp4") as run:
        assert (run.engine.name, run.engine.device) == ("sim", "sim:H100 x4")
        assert isinstance(run.engine, TracesSteps)
        assert (await run.engine.start()).source == "sim:h100-llama-3.1-70b-tp4"


async def test_a_step_takes_as_long_as_the_profile_says(tmp_path: Path) -> None:
    async with running(tmp_path, speed=0.5) as run:
        prompt = "one two three"
        begun = time.monotonic()
        await run.ask(prompt, max_tokens=20)
        took = time.monotonic() - begun
        assert [step.rows[0].kind for step in run.steps] == [StepKind.LAST_PREFILL] + [StepKind.DECODE] * 19
        timer = run.engine.profile.timer
        count = len(TOKENIZER.encode(prompt))
        one = ("r", StepKind.DECODE, 1, count + 5, count, 6, 0, 0, False, False, (), 1)
        assert run.steps[6].execute_s == pytest.approx(timer.seconds([one], 1) / 0.5)
        total = sum(step.execute_s for step in run.steps)
        assert took >= total - 0.002
        # Each begins where the one before ended, however late timers fire.
        starts = [step.started_unix for step in run.steps]
        assert starts[-1] - starts[0] == pytest.approx(total - run.steps[-1].execute_s, abs=0.4)


async def test_steps_and_snapshot_agree(tmp_path: Path) -> None:
    async with running(tmp_path, speed=2.0, max_num_seqs=8) as run:
        shared = "the same beginning of every prompt " * 8
        replies = [run.submit(f"{shared} {n}", max_tokens=60)[1] for n in range(3)]
        async with asyncio.timeout(TIMEOUT_S):
            await asyncio.gather(*(reply.begun.wait() for reply in replies))
        snapshot = await run.engine.blocks()
        tables = BlockTables()
        tables.apply_all(step for step in run.steps if step.step <= snapshot.step)
        assert {table.request_id: table for table in tables.tables()} == {
            table.request_id: table for table in snapshot.tables
        }
        assert tables.shared() == snapshot.shared
        assert len(snapshot.shared) >= 3
        assert snapshot.used_blocks + snapshot.cached_free_blocks + snapshot.free_blocks == snapshot.total_blocks
        await asyncio.gather(*(reply.end(TIMEOUT_S) for reply in replies))
        assert all(
            step.used_blocks + step.cached_free_blocks + step.free_blocks == step.total_blocks for step in run.steps
        )


async def test_two_requests_of_one_name_are_told_apart(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        replies = [run.submit("hello", request_id="twin")[1] for _ in range(2)]
        await asyncio.gather(*(reply.end(TIMEOUT_S) for reply in replies))
        assert {row.request_id for step in run.steps for row in step.rows} == {"twin", "twin-2.0"}


async def test_a_name_comes_back_after_an_abort(tmp_path: Path) -> None:
    async with running(tmp_path, speed=1.0) as run:
        number, reply = run.submit("hello", request_id="again", max_tokens=500)
        async with asyncio.timeout(TIMEOUT_S):
            await reply.begun.wait()
        run.engine.abort(number)
        again = await run.ask("hello", request_id="again", max_tokens=3)
        assert len(again.token_ids()) == 3
        tables = BlockTables()
        tables.apply_all(run.steps)
        assert tables.tables() == ()


async def test_preemptions_are_counted(tmp_path: Path) -> None:
    async with running(tmp_path, total_blocks=20, max_context=320) as run:
        replies = [run.submit("word " * 40, request_id=f"p{n}", max_tokens=120)[1] for n in range(4)]
        ends = [await reply.end(TIMEOUT_S) for reply in replies]
        assert [len(end.token_ids()) for end in ends] == [120] * 4
        counted = sum(end.last.done.stages.preemptions for end in ends if end.last.done)
        assert counted == run.engine.load().preemptions == sum(len(step.preempted) for step in run.steps) > 0


async def test_the_trace_can_be_sampled_and_off(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        assert (await run.engine.set_trace(TraceMode.SAMPLED, 4)).every == 4
        await run.ask("hello", max_tokens=20)
        assert [step.step % 4 for step in run.steps] == [0] * len(run.steps)
        assert len(run.steps) == 5
        await run.engine.set_trace(TraceMode.OFF, 1)
        await run.ask("hello", max_tokens=20)
        assert len(run.steps) == 5
        assert run.engine.trace().step == 40


async def test_a_step_is_over_when_it_is_told_also_where_a_timer_rings_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    later = loop.call_later
    monkeypatch.setattr(loop, "call_later", lambda delay, *rest: later(max(0.0, delay - 0.003), *rest))
    async with running(tmp_path, speed=1.0) as run:
        told: list[tuple[float, EngineStep]] = []
        run.engine.on_steps = lambda steps: told.extend((time.time(), step) for step in steps)
        await run.ask("hello", max_tokens=8)
    assert len(told) == 8
    assert all(step.started_unix + step.schedule_s + step.execute_s < at + 0.001 for at, step in told)


async def test_scripts_say_what_is_said(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        assert (await run.script(text="exactly this")).text() == "exactly this"
        assert (await run.script(bytes=["e2", "98", "83"])).text() == "\u2603"
        pieces = await run.script(pieces=["one piece ", "and another"])
        assert pieces.text() == "one piece and another"
        assert len(pieces.deltas) == 2
        assert len((await run.script(tokens=7, finish="length")).token_ids()) == 7
        failed = await run.script(text="x", finish="error")
        assert failed.last.error is not None
        with pytest.raises(InferDeckError, match="refused by the script"):
            await run.script(refuse="engine_overloaded")


async def test_scripts_say_when(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        await run.script(tokens=3, prefill_s=0.2, delay_s=0.05)
        assert [round(step.execute_s, 3) for step in run.steps] == [0.2, 0.05, 0.05]
        run.steps.clear()
        await run.script(tokens=3, delay_s=0.01, stall_s=0.1, stall_after=1)
        assert [round(step.execute_s, 3) for step in run.steps] == [0.01, 0.11, 0.01]


async def test_a_script_may_kill_the_engine(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        other = run.submit("someone else", max_tokens=1500)[1]
        dying = await run.script(tokens=50, engine_dies_after=5)
        assert len(dying.token_ids()) == 5
        assert dying.last.error is not None
        assert (await other.end(TIMEOUT_S)).last.error is not None
        async with asyncio.timeout(TIMEOUT_S):
            assert await run.engine.dead() == "died by its script"
        with pytest.raises(InferDeckError, match="dead"):
            run.submit("more")


async def test_failures_while_it_runs(tmp_path: Path) -> None:
    async with running(tmp_path, speed=1.0) as run:
        await run.ask("hello", max_tokens=5)
        normal = run.steps[-1].execute_s
        run.engine.inject(Failure(FailureKind.SLOW, factor=5))
        await run.ask("hello", max_tokens=5)
        assert run.steps[-1].execute_s == pytest.approx(5 * normal, rel=0.05)
        assert [failure.kind for failure in run.engine.failures()] == [FailureKind.SLOW]
        run.engine.heal()
        assert run.engine.failures() == ()

        before = run.engine.load()
        run.engine.inject(Failure(FailureKind.FREEZE_LOAD))
        frozen = run.engine.load()
        await run.ask("hello", max_tokens=5)
        assert run.engine.load() == frozen == before
        run.engine.heal()
        assert run.engine.load().generated_tokens == before.generated_tokens + 5

        told = len(run.steps)
        run.engine.inject(Failure(FailureKind.DROP_STEPS))
        await run.ask("hello", max_tokens=5)
        assert len(run.steps) == told
        run.engine.heal()
        await run.ask("hello", max_tokens=5)
        assert run.steps[-1].dropped == 5

        run.engine.inject(Failure(FailureKind.STALL))
        reply = run.submit("hello", max_tokens=3)[1]
        with pytest.raises(TimeoutError):
            await reply.end(0.3)
        run.engine.heal()
        assert len((await reply.end(TIMEOUT_S)).token_ids()) == 3


async def test_events_that_are_dropped_leave_a_gap_in_their_numbers(tmp_path: Path) -> None:
    async with running(tmp_path, kv_events=True) as run:
        batches: list[KvBatch] = []
        run.engine.on_kv_events = batches.extend
        mirror = KvMirror()
        await run.ask("a " * 40, max_tokens=4)
        run.engine.inject(Failure(FailureKind.DROP_EVENTS))
        told = len(batches)
        await run.ask("b " * 40, max_tokens=4)
        assert len(batches) == told
        run.engine.heal()
        await run.ask("c " * 40, max_tokens=4)
        assert not mirror.apply(KvFrame(batches=tuple(batches)))
        snapshot = run.engine.cached_blocks()
        assert snapshot.seq == batches[-1].seq
        # What was lost is in the engine's own set.
        assert set(block_hashes(TOKENIZER.encode("b " * 40), run.engine.config.block_size)) <= set(snapshot.hashes)


async def test_a_script_is_a_prompt_like_any_other_where_scripts_are_not_allowed(tmp_path: Path) -> None:
    async with running(tmp_path, scripts=False) as run:
        assert (await run.script(text="no", die_after=0, inject={"kind": "crash"})).text() != "no"
        assert (await run.ask("hi")).last.done is not None


async def test_a_script_may_inject_a_failure_and_clear_it(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        await run.script(tokens=3)
        normal = run.steps[-1].execute_s
        await run.script(tokens=3, inject={"kind": "slow", "factor": 7})
        assert run.steps[-1].execute_s == pytest.approx(7 * normal, rel=0.05)
        await run.script(tokens=3, inject="clear")
        assert run.steps[-1].execute_s == pytest.approx(normal, rel=0.05)
        with pytest.raises(InferDeckError, match="no failure 'explode'"):
            await run.script(inject="explode")


async def test_the_engine_can_be_made_to_die(tmp_path: Path) -> None:
    async with running(tmp_path, failures=[{"kind": "engine_dies", "after_s": 0.05}], speed=1.0) as run:
        reply = await run.ask("hello", max_tokens=1500)
        assert reply.last.error is not None
        assert "on purpose" in await run.engine.dead()


async def test_an_answer_ends_by_itself_with_the_end_token(tmp_path: Path) -> None:
    async with running(tmp_path, output_tokens=20) as run:
        reply = await run.ask("hello", max_tokens=1000, ignore_eos=False, seed=3)
        assert reply.finish().reason is FinishReason.STOP
        assert reply.token_ids()[-1] == TOKENIZER.eos_id
        assert run.steps[-1].finished[0].reason == "stop"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"profil": "x"}, "no argument 'profil'"),
        ({"speed": 0}, "speed must be above 0"),
        ({"max_num_seqs": True}, "can't be True"),
        ({"gpu": "H100"}, "a profile names the GPU"),
        ({"failures": ["explode"]}, "no failure 'explode'"),
        ({"scheduling_policy": "lifo"}, "fcfs or priority"),
    ],
)
def test_wrong_arguments_are_told(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        SimEngine(scripted_spec(tmp_path, engine="sim", **({"profile": "h100-llama-3.1-8b"} | arguments)))
