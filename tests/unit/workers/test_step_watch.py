"""The ring of steps, and what its watchers are sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.contracts.block_tables import BlockTables
from control_plane.contracts.errors import Conflict, InvalidRequest
from control_plane.contracts.step import (
    BlockSnapshot,
    EngineStep,
    StepFinished,
    StepFrame,
    StepKind,
    StepRow,
    TraceMode,
    TraceState,
)
from tests.scripted_worker import scripted_spec
from workers import step_watch
from workers.engine.base import TracesSteps
from workers.engine.scripted import ScriptedEngine
from workers.step_ring import StepRing
from workers.step_watch import FRAME_ROWS, NO_TRACE, StepWatch


class Tracing(ScriptedEngine):
    """Tells what the test tells it to."""

    on_steps: Callable[[Sequence[EngineStep]], None]
    told = TraceState(TraceMode.FULL)

    def trace(self) -> TraceState:
        return self.told

    async def set_trace(self, mode: TraceMode, every: int) -> TraceState:
        self.told = TraceState(mode, every)
        return self.told

    async def blocks(self) -> BlockSnapshot:
        return BlockSnapshot(7)


@pytest.fixture
def engine(tmp_path: Path) -> Tracing:
    made = Tracing(scripted_spec(tmp_path))
    made.on_steps = lambda steps: None
    assert isinstance(made, TracesSteps)
    return made


def steps(first: int, last: int, requests: int = 2) -> list[EngineStep]:
    """Each step gives each request one more block; ``r0`` has left and joined anew in every tenth."""
    made = []
    for number in range(first, last + 1):
        fresh = number == 1 or number % 10 == 1
        rows = tuple(
            StepRow(
                f"r{index}", StepKind.DECODE, 1, number, 8, joined=fresh, new_blocks=(number * 10 + index,), blocks=99
            )
            for index in range(requests)
        )
        finished = tuple(StepFinished(row.request_id, "stop") for row in rows) if number % 10 == 0 else ()
        made.append(
            EngineStep(number, float(number), rows=rows, finished=finished, total_blocks=50, used_blocks=number % 10)
        )
    return made


async def take(watch: StepWatch, from_step: int = 0) -> tuple[list[EngineStep], list[StepFrame]]:
    frames = [frame async for frame in watch.frames(from_step, live=False)]
    return [step for frame in frames for step in frame.steps], frames


@given(
    st.lists(st.integers(0, 30), max_size=20),
    st.integers(1, 25),
    st.integers(1, 60),
    st.integers(0, 40),
    st.integers(1, 9),
)
def test_the_ring_keeps_the_last_and_what_they_continue(
    pieces: list[int], capacity: int, most_rows: int, skipped: int, count: int
) -> None:
    ring = StepRing(capacity, most_rows=most_rows, total_blocks=50, block_size=32)
    everything: list[EngineStep] = []
    for piece in pieces:
        new = steps(len(everything) + 1, len(everything) + piece, requests=1 + piece % 3)
        ring.extend(new)
        everything += new
    kept = everything[-capacity:]
    while len(kept) > 1 and sum(len(step.rows) for step in kept) > most_rows:
        del kept[0]
    assert ring.end - ring.begin == len(kept)
    assert ring.first_kept == (kept[0].step if kept else 0)
    place = ring.begin + min(skipped, len(kept))
    rest = kept[place - ring.begin :]
    assert ring.at(place, count) == rest[:count]
    piece_of = ring.piece(place, count, 4)
    assert piece_of == rest[: len(piece_of)]
    assert len(piece_of) >= min(1, len(rest))
    assert len(piece_of) <= 1 or sum(len(step.rows) for step in piece_of) <= 4
    tables = BlockTables()
    tables.apply_all(everything[: len(everything) - len(kept)])
    base = ring.ground().snapshot()
    assert (base.tables, base.step) == (tables.tables(), tables.step)
    assert (base.total_blocks, base.block_size) == (50, 32)


def test_a_copy_of_the_ground_does_not_move_with_the_ring() -> None:
    ring = StepRing(2)
    ring.extend(steps(1, 4))
    ground = ring.ground()
    before = ground.snapshot()
    ring.extend(steps(5, 9))
    assert ground.snapshot() == before
    assert ring.ground().snapshot() != before


async def test_a_late_watcher_gets_the_tables_before_and_the_steps_since(engine: Tracing) -> None:
    watch = StepWatch(engine, capacity=300)
    watch.describe(total_blocks=50, block_size=32)
    engine.on_steps(steps(1, 1000))
    got, frames = await take(watch)
    assert [step.step for step in got] == list(range(701, 1001))
    assert [frame.base is not None for frame in frames] == [True, False, False]
    base = frames[0].base
    assert base is not None
    assert (base.step, base.block_size) == (700, 32)
    assert frames[0].trace.first_kept == 701


@pytest.mark.parametrize("from_step", [702, 850, 1000, 1001, 5000])
async def test_from_a_step_on(engine: Tracing, from_step: int) -> None:
    watch = StepWatch(engine, capacity=300)
    engine.on_steps(steps(1, 1000))
    got, frames = await take(watch, from_step)
    assert [step.step for step in got] == list(range(from_step, 1001))
    whole = BlockTables()
    whole.apply_all(steps(1, min(from_step - 1, 1000)))
    assert frames[0].base is not None
    assert frames[0].base.tables == whole.tables()


async def test_watchers_follow_live_each_for_itself(engine: Tracing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_watch, "GAP_S", 0.0)
    watch = StepWatch(engine)
    engine.on_steps(steps(1, 3))

    async def follow() -> list[int]:
        return [step.step async for frame in watch.frames(0, live=True) for step in frame.steps]

    watchers = [asyncio.create_task(follow()) for _ in range(3)]
    for number in range(4, 40):
        engine.on_steps(steps(number, number))
        await asyncio.sleep(0)
    watch.end()
    assert await asyncio.gather(*watchers) == [list(range(1, 40))] * 3


async def test_a_slow_watcher_loses_steps_is_told_and_begins_anew(engine: Tracing) -> None:
    watch = StepWatch(engine, capacity=20)
    engine.on_steps(steps(1, 10))
    async with aclosing(watch.frames(0, live=True)) as frames:
        tables = BlockTables((await anext(frames)).base)
        engine.on_steps(steps(11, 100))
        watch.end()
        frame = await anext(frames)
        assert frame.trace.dropped == 70
        assert [step.step for step in frame.steps] == list(range(81, 101))
        assert frame.base is not None
        tables = BlockTables(frame.base)
        tables.apply_all(frame.steps)
        whole = BlockTables()
        whole.apply_all(steps(1, 100))
        assert tables.tables() == whole.tables()
        assert [frame async for frame in frames] == []


async def test_watchers_that_left_are_forgotten(engine: Tracing) -> None:
    watch = StepWatch(engine)
    task = asyncio.create_task(take_live(watch))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert not watch._news


async def take_live(watch: StepWatch) -> None:
    async for _ in watch.frames(0, live=True):
        pass


async def test_a_change_of_the_trace_is_told_at_once(engine: Tracing) -> None:
    watch = StepWatch(engine)
    async with aclosing(watch.frames(0, live=True)) as frames:
        assert (await anext(frames)).trace.mode is TraceMode.FULL
        state = await watch.set_trace(TraceMode.SAMPLED, 8)
        frame = await anext(frames)
        assert (frame.trace, frame.steps, frame.base) == (state, (), None)
        engine.told = TraceState(TraceMode.OFF, unavailable="it broke")
        engine.on_steps(())
        assert (await anext(frames)).trace.unavailable == "it broke"
        assert [frame async for frame in frames] == []


async def test_what_the_trace_can_be_set_to(engine: Tracing) -> None:
    watch = StepWatch(engine)
    assert (await watch.set_trace(TraceMode.UNSPECIFIED, 0)).mode is TraceMode.FULL
    assert (await watch.set_trace(TraceMode.OFF, 9)).every == 1
    with pytest.raises(InvalidRequest, match="at least 2") as refused:
        await watch.set_trace(TraceMode.SAMPLED, 1)
    assert refused.value.param == "every"
    assert (await watch.blocks()).step == 7


async def test_the_steps_of_one_request(engine: Tracing) -> None:
    watch = StepWatch(engine)
    odd = EngineStep(7, 0.0, rows=(StepRow("r1#2", StepKind.DECODE, 1, 0, 1), StepRow("r11", StepKind.DECODE, 1, 0, 1)))
    engine.on_steps([*steps(1, 3, requests=1), odd, EngineStep(8, 0.0, preempted=("r1",)), *steps(9, 9, requests=1)])
    frames = [frame async for frame in watch.frames_of("r1")]
    assert [(step.step, step.batch, len(step.rows)) for frame in frames for step in frame.steps] == [
        (7, 2, 1),
        (8, 0, 0),
    ]
    assert all(frame.base is None for frame in frames)
    assert [frame async for frame in watch.frames_of("r")] == []


async def test_a_frame_of_large_steps_is_short_and_others_have_their_turn(engine: Tracing) -> None:
    watch = StepWatch(engine)
    engine.on_steps([*steps(1, 12, requests=200), *steps(13, 13, requests=FRAME_ROWS + 1), *steps(14, 14)])
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    others = asyncio.create_task(count())
    _, frames = await take(watch)
    others.cancel()
    assert [len(frame.steps) for frame in frames] == [2, 2, 2, 2, 2, 2, 1, 1]
    assert turns >= len(frames) - 1


@pytest.mark.parametrize(("from_step", "last", "first"), [(0, 30, 971), (0, 5000, 701), (980, 30, 980), (900, 30, 971)])
async def test_the_last_steps_and_the_tables_before_them(
    engine: Tracing, from_step: int, last: int, first: int
) -> None:
    watch = StepWatch(engine, capacity=300)
    engine.on_steps(steps(1, 1000))
    frames = [frame async for frame in watch.frames(from_step, live=False, last_steps=last)]
    assert [step.step for frame in frames for step in frame.steps] == list(range(first, 1001))
    whole = BlockTables()
    whole.apply_all(steps(1, first - 1))
    assert frames[0].base is not None
    assert (frames[0].base.step, frames[0].base.tables) == (first - 1, whole.tables())


async def test_an_engine_without_a_trace_says_so(tmp_path: Path) -> None:
    watch = StepWatch(ScriptedEngine(scripted_spec(tmp_path)))
    _, [frame] = await take(watch)
    assert frame.trace == TraceState(unavailable=NO_TRACE)
    assert [frame async for frame in watch.frames(0, live=True)] == [frame]
    assert (await watch.set_trace(TraceMode.UNSPECIFIED, 0)).unavailable == NO_TRACE
    with pytest.raises(Conflict):
        await watch.set_trace(TraceMode.FULL, 0)
    with pytest.raises(Conflict):
        await watch.blocks()
