"""What a real engine tells of its steps: to watchers in its worker, while it serves."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

from control_plane.contracts.block_tables import BlockTables
from control_plane.contracts.errors import Conflict
from control_plane.contracts.step import BlockSnapshot, EngineStep, StepKind, TraceMode
from tests.real_vllm.asker import TIMEOUT_S, Asker
from tests.real_vllm.conftest import real_spec
from workers.engine.base import TracesSteps
from workers.engine.vllm_engine import VllmEngine
from workers.engine.vllm_tracer import Tracer
from workers.step_watch import StepWatch

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.forks]

PREFIX = list(range(1000, 1096))  # three blocks of 32


def engine_of(asker: Asker) -> VllmEngine:
    assert isinstance(asker.engine, VllmEngine)
    assert isinstance(asker.engine, TracesSteps)
    return asker.engine


async def kept(watch: StepWatch, until: int = 0) -> list[EngineStep]:
    """The steps that have come; with ``until``, once that one has."""
    async with asyncio.timeout(TIMEOUT_S):
        while watch.state().step < until:  # noqa: ASYNC110 - only for what is on its way
            await asyncio.sleep(0.01)
    return [step async for frame in watch.frames(0, live=False) for step in frame.steps]


def at(steps: list[EngineStep], name: str) -> list[EngineStep]:
    return [step for step in steps if any(row.request_id == name for row in step.rows)]


async def test_three_requests_that_overlap_and_share_a_prefix(asker: Asker) -> None:
    engine = engine_of(asker)
    await asker.until_idle()
    watch = StepWatch(engine)
    before = watch.state().step
    snapshots: list[BlockSnapshot] = []
    numbers, replies = [], []
    for own, tokens in ((8, 60), (700, 12), (20, 20)):
        number, reply = asker.submit([*PREFIX, *range(2000, 2000 + own)], max_tokens=tokens, ignore_eos=True)
        numbers.append(f"real-{number}")
        replies.append(reply)
        async with asyncio.timeout(TIMEOUT_S):
            await reply.begun.wait()
        snapshots.append(await engine.blocks())
    while not replies[0].ended.is_set():
        snapshots.append(await engine.blocks())
        await asyncio.sleep(0.05)
    await asyncio.gather(*(reply.end(TIMEOUT_S) for reply in replies))
    last = await engine.blocks()
    steps = await kept(watch, last.step)
    first, second, third = numbers

    assert [step.step for step in steps] == list(range(before + 1, last.step + 1))
    rows = {name: [row for step in steps for row in step.rows if row.request_id == name] for name in numbers}
    for name, tokens in ((first, 60), (second, 12), (third, 20)):
        mine = at(steps, name)
        assert [step.step for step in mine] == list(range(mine[0].step, mine[-1].step + 1))
        assert [row.joined for row in rows[name]] == [True] + [False] * (len(mine) - 1)
        kinds = [row.kind for row in rows[name]]
        assert kinds[-tokens:] == [StepKind.LAST_PREFILL] + [StepKind.DECODE] * (tokens - 1)
        assert [row.output_tokens for row in rows[name]][-tokens:] == list(range(tokens))
        [finished] = [each for each in mine[-1].finished if each.request_id == name]
        assert (finished.reason, finished.output_tokens) == ("length", tokens)
        assert (
            sum(row.tokens for row in rows[name]) + rows[name][0].cached_tokens
            == rows[name][0].prompt_tokens + tokens - 1
        )
    assert at(steps, first)[0].step < at(steps, second)[0].step < at(steps, third)[0].step
    # 796 tokens, of which 96 are cached, do not fit one step of 512 beside a decoding request.
    assert [(row.kind, row.tokens) for row in rows[second][:2]] == [
        (StepKind.PREFILL, 511),
        (StepKind.LAST_PREFILL, 700 - 511),
    ]
    assert rows[second][0].cached_tokens == rows[third][0].cached_tokens == 96
    assert rows[first][0].new_blocks[:3] == rows[second][0].new_blocks[:3] == rows[third][0].new_blocks[:3]

    tables = BlockTables()
    by_step = {step.step: step for step in steps}
    seen_shared: set[int] = set()
    for snapshot in sorted(snapshots, key=lambda each: each.step):
        tables.apply_all(step for step in steps if step.step <= snapshot.step)
        assert tables.tables() == snapshot.tables
        assert tables.shared() == snapshot.shared
        step = by_step[snapshot.step]
        assert (step.used_blocks, step.cached_free_blocks) == (snapshot.used_blocks, snapshot.cached_free_blocks)
        assert len(snapshot.cached_free) == snapshot.cached_free_blocks
        assert snapshot.used_blocks + snapshot.cached_free_blocks + snapshot.free_blocks == snapshot.total_blocks
        seen_shared |= {each.references for each in snapshot.shared}
    assert {2, 3} <= seen_shared
    assert all(
        each.used_blocks + each.cached_free_blocks + each.free_blocks == each.total_blocks == last.total_blocks
        for each in steps
    )
    assert all(step.execute_s > 0 and step.schedule_s > 0 and step.dropped == 0 for step in steps)
    assert (last.tables, last.used_blocks) == ((), 0)


async def test_off_sampled_and_full_while_it_runs(asker: Asker) -> None:
    engine = engine_of(asker)
    await asker.until_idle()
    watch = StepWatch(engine)
    _, reply = asker.submit(PREFIX[:40], max_tokens=120, ignore_eos=True)
    async with asyncio.timeout(TIMEOUT_S):
        await reply.begun.wait()
        assert (await watch.set_trace(TraceMode.OFF, 0)).mode is TraceMode.OFF
        begun, tokens = (await engine.blocks()).step, engine.load().generated_tokens
        await asker.until(lambda load: load.generated_tokens > tokens + 10)
        told = len(await kept(watch))
        assert told < begun + 2
        state = await watch.set_trace(TraceMode.SAMPLED, 7)
        assert (state.mode, state.every) == (TraceMode.SAMPLED, 7)
        await asker.until(lambda load: load.generated_tokens > tokens + 50)
        await watch.set_trace(TraceMode.FULL, 0)
    await reply.end(TIMEOUT_S)
    last = await engine.blocks()
    steps = await kept(watch, last.step)
    after = [step.step for step in steps if step.step > begun]
    assert after[0] > begun + 5  # nothing of the time when it was off
    full = next(number for number, following in itertools.pairwise(after) if following == number + 1)
    sampled = [number for number in after if number < full]
    assert len(sampled) >= 3
    assert sampled == list(range(sampled[0], full, 7))
    assert sampled[0] % 7 == 0
    assert [number for number in after if number >= full] == list(range(full, last.step + 1))
    tables = BlockTables()
    for step in steps:
        tables.apply(step)
        assert all(len(tables.blocks(row.request_id)) == row.blocks for row in step.rows) or step.finished
    assert tables.tables() == ()
    assert watch.state().dropped == 0


async def test_an_abort_is_told_although_nothing_runs_after_it(asker: Asker) -> None:
    engine = engine_of(asker)
    await asker.until_idle()
    watch = StepWatch(engine)
    number, reply = asker.submit(PREFIX, max_tokens=400, ignore_eos=True)
    async with asyncio.timeout(TIMEOUT_S):
        await reply.begun.wait()
    engine.abort(number)
    await asker.until_idle()
    steps = await kept(watch, (await engine.blocks()).step)
    assert [(each.request_id, each.reason) for step in steps for each in step.finished] == [(f"real-{number}", "abort")]
    assert steps[-1].used_blocks == 0


async def test_an_engine_whose_trace_fails_serves_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Tracer, *args: Any) -> Any:
        raise RuntimeError("of the test")

    monkeypatch.setattr(Tracer, "_rows", broken)
    engine = VllmEngine(real_spec(tmp_path))
    watch = StepWatch(engine)
    try:
        asker = Asker(engine, await engine.start())
        assert not watch.state().unavailable
        reply = await asker.ask("The capital of France is", max_tokens=40, ignore_eos=True)
        assert len(reply.token_ids()) == 40
        frames = [frame async for frame in watch.frames(0, live=True)]
        why = "the trace failed 32 times in a row: RuntimeError: of the test"
        assert [(frame.steps, frame.trace.unavailable, frame.trace.dropped) for frame in frames] == [((), why, 32)]
        with pytest.raises(Conflict, match="32 times"):
            await watch.set_trace(TraceMode.FULL, 0)
        with pytest.raises(Conflict):
            await watch.blocks()
        assert (await asker.ask("The capital of France is", max_tokens=4)).text().startswith(" Paris")
    finally:
        await engine.stop()
