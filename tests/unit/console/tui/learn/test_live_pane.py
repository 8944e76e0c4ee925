"""The live view beside a lesson's words."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from console.tui.learn.pin import TOLD, Pin
from console.tui.learn.since import Since
from console.tui.messages import Stepped
from console.tui.order import Verb
from control_plane.contracts.fleet import Event, RequestPhase, RequestView, Snapshot, WorkerView
from control_plane.contracts.step import BlockSnapshot, EngineStep, StepFrame, TraceMode, TraceState
from tests.snapshots.memory import NOW, request, snapshot, worker
from tests.snapshots.steps import Job, SmallEngine
from tests.unit.console.tui.learn.harness import Class, lesson
from tests.unit.lessons.folders import lesson_folder

SIZES = pytest.mark.parametrize("size", [(80, 24), (100, 30)])


def full_cache() -> tuple[BlockSnapshot, list[EngineStep]]:
    """Calls that end, and later eight that grow until one is preempted, and go on for longer than is in sight."""
    engine = SmallEngine(total=40, block_size=16, seats=8, budget=512)
    base = engine.snapshot()
    made = []
    for name in ("before-1", "before-2"):
        engine.add(Job(name, 40, 3))
    while engine.waiting or engine.running:
        made.append(engine.run())
    for number in range(8):
        engine.add(Job(f"mine-{number}", 60, 100))
    while engine.waiting or engine.running:
        made.append(engine.run())
    return base, made


def folder_with(tmp_path: Path, view: str) -> Path:
    show = f'[[step]]\nkind = "show"\nid = "look"\nview = "{view}"\nof = "w-1"\n\n'
    before = '[[step]]\nkind = "predict"'
    return lesson_folder(tmp_path, {before: show + before}, {"# guess-": "# look\nLook.\n\n# guess-"})


@asynccontextmanager
async def looking(
    tmp_path: Path, view: str, size: tuple[int, int], base: BlockSnapshot, steps: Sequence[EngineStep]
) -> AsyncIterator[Class]:
    """On a step that shows this, beside an engine that has made these steps."""
    async with lesson(tmp_path, size, folder=folder_with(tmp_path, view)) as seen:
        while seen.screen.player.step.id != "look":
            await seen.do("right")
        frame = StepFrame(tuple(steps), TraceState(TraceMode.FULL, step=steps[-1].step), base)
        seen.app.on_stepped(Stepped("w-1", frame, anew=True))
        await seen.pass_time(0.0)
        await seen.pass_time(0.0)
        yield seen


@SIZES
async def test_steps_stand_still_where_somebody_is_preempted(tmp_path: Path, size: tuple[int, int]) -> None:
    base, made = full_cache()
    first = next(step.step for step in made if step.preempted)
    async with looking(tmp_path, "steps", size, base, made) as seen:
        assert made[-1].step - first > 100, "it was long ago"
        assert f"step {first}" in seen.text
        assert any("mine-6" in line and "████×·" in line for line in seen.lines)
        assert any("  tokens  " in line and "▇" in line for line in seen.lines), "how many each step had"
        assert "[Tab] then [← →] scroll" in seen.text
        for other in ((60, 24), size):
            await seen.pilot.resize_terminal(*other)
            await seen.pass_time(0.0)
        assert any("mine-6" in line and "████×·········" in line for line in seen.lines), "with what came after it"


@SIZES
async def test_the_steps_are_scrolled_with_the_keys_of_the_live_view(tmp_path: Path, size: tuple[int, int]) -> None:
    base, made = full_cache()
    first = next(step.step for step in made if step.preempted)
    async with looking(tmp_path, "steps", size, base, made) as seen:
        await seen.press("tab")
        assert "[Tab]" not in seen.text
        await seen.press("left", "left_square_bracket")
        assert f"step {first - 2}" in seen.text
        await seen.press("shift+right", "right", "right_square_bracket")
        assert f"step {first + 10}" in seen.text
        await seen.pass_time(1.0)
        assert f"step {first + 10}" in seen.text, "there it stays"
        await seen.press(*["shift+left"] * 30)
        assert f"‖ step {made[0].step}{', 181 before the end' if size[0] == 80 else ' '}" in seen.text, "the beginning"
        await seen.press("tab")
        await seen.do("right")
        assert seen.screen.player.step.id == "guess-first", "elsewhere the keys are the lesson's"
        assert f"step {made[-1].step}" in seen.text or "requests" in seen.text


@SIZES
async def test_steps_stand_still_where_a_prompt_is_beside_a_decode(tmp_path: Path, size: tuple[int, int]) -> None:
    engine = SmallEngine(total=80)
    base = engine.snapshot()
    engine.add(Job("A", 20, 90))
    made = [engine.run() for _ in range(8)]
    engine.add(Job("B", 20, 4))
    while engine.waiting or engine.running:
        made.append(engine.run())
    async with looking(tmp_path, "steps", size, base, made) as seen:
        assert "step 9" in seen.text
        assert any(" A " in line and "████" in line for line in seen.lines)
        assert any(" B " in line and "▒██✓" in line for line in seen.lines)


@SIZES
async def test_blocks_are_told_by_their_numbers_beside_the_letters_of_the_map(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    base, made = full_cache()
    async with looking(tmp_path, "blocks", size, base, made[:20]) as seen:
        assert "TABLE: blocks in their order" in seen.text
        assert any(line.strip().endswith("7-10 39") and "c mine-0" in line for line in seen.lines)


async def test_an_engine_whose_blocks_nobody_holds(tmp_path: Path) -> None:
    base, made = full_cache()
    async with looking(tmp_path, "blocks", (100, 30), base, made) as seen:
        assert "nobody holds a block" in seen.text


def ended(name: str, at: float) -> RequestView:
    return request(name, "w-1", NOW, phase=RequestPhase.FINISHED, arrival_unix=at, duration_s=0.5)


async def turn(seen: Class, view: str) -> None:
    seen.screen.live.turn(Pin(view))
    await seen.pass_time(0.0)


@SIZES
async def test_a_lesson_shows_nothing_of_what_was_before_it(tmp_path: Path, size: tuple[int, int]) -> None:
    async with lesson(tmp_path, size) as seen:
        old = Event(1, NOW - 5, "worker_ready", "w-1", "old news")
        await seen.hear(snapshot(NOW, (worker("w-1", 0.9, NOW),), (ended("req-old", NOW - 9),), events=(old,)))
        await turn(seen, "requests")
        assert "req-old" in seen.text
        seen.stage.began = seen.app.live().snapshot
        await seen.press("r", "y")
        await seen.until(lambda: seen.standing.started)
        assert seen.app.live().history.window("w-1", NOW, 60.0, 8) == []
        new = Event(2, NOW + 2, "worker_ready", "w-1", "new things")
        both = (ended("req-old", NOW - 9), ended("req-new", NOW + 1))
        await seen.hear(snapshot(NOW + 3, (worker("w-1", 0.2, NOW + 3),), both, events=(old, new)))
        assert "req-new" in seen.text
        assert "req-old" not in seen.text
        await turn(seen, "events")
        assert "new things" in seen.text
        assert "old news" not in seen.text


@SIZES
async def test_the_newest_request_is_in_sight_whatever_the_words_take(tmp_path: Path, size: tuple[int, int]) -> None:
    async with lesson(tmp_path, size) as seen:
        await turn(seen, "requests")
        for number in range(1, 40):
            many = tuple(ended(f"req-{each:03}", NOW - 40 + each) for each in range(number))
            await seen.hear(snapshot(NOW + number / 100, 1, many))
        await seen.pilot.resize_terminal(size[0], size[1] - 4)
        await seen.pilot.resize_terminal(*size)
        await seen.pass_time(0.0)
        first = next(line for line in seen.lines if "req-" in line)
        assert "req-038" in first
        await seen.press("tab", "down", "down")
        await seen.hear(snapshot(NOW + 1, 1, tuple(ended(f"req-{each:03}", NOW - 40 + each) for each in range(41))))
        assert seen.screen.targets(Verb.CANCEL) == ["req-036"], "the cursor stays with its request"


@SIZES
async def test_the_workers_have_their_latencies_and_hits_at_every_size(tmp_path: Path, size: tuple[int, int]) -> None:
    async with lesson(tmp_path, size) as seen:
        await turn(seen, "workers")
        title = next(line for line in seen.lines if "tok/s" in line and "wait" in line)
        assert [word for word in ("TTFT", "ITL", "hits") if word not in title] == []


def test_hits_are_those_since_the_lesson_or_its_last_experiment_began() -> None:
    def at(prompt: int, cached: int, instance: str = "a") -> WorkerView:
        view = worker("w-1", 0.4)
        assert view.load is not None
        return replace(view, load=replace(view.load, instance_id=instance, prompt_tokens=prompt, cached_tokens=cached))

    since = Since.found(snapshot(NOW, (at(1000, 900),), 0))
    assert since.at == NOW
    assert since.hits(at(1000, 900)) is None, "nothing was asked of it yet"
    assert since.hits(at(1100, 910)) == 0.1
    assert since.hits(at(80, 40, "b")) == 0.5, "another process counts anew"
    assert Since.found(None) == Since()
    later = since.counted([at(1100, 910)])
    assert later.at == NOW
    assert later.hits(at(1100, 910)) is None
    assert later.hits(at(1200, 1000)) == 0.9


async def test_the_column_of_hits_begins_with_each_experiment(tmp_path: Path) -> None:
    def told(prompt: int, cached: int) -> Snapshot:
        view = worker("w-1", 0.4)
        assert view.load is not None
        load = replace(view.load, instance_id="a", prompt_tokens=prompt, cached_tokens=cached)
        return snapshot(NOW, (replace(view, load=load),), 0)

    async with lesson(tmp_path) as seen:
        while seen.screen.player.step.id != "experiment":
            await seen.do("s" if seen.standing.waits else "right")
        await turn(seen, "workers")
        await seen.hear(told(1000, 990))
        assert any("w-1" in line and "99%" in line for line in seen.lines)
        await seen.do("enter")
        await seen.hear(told(1000, 990))
        assert not any("w-1" in line and "99%" in line for line in seen.lines), "nothing was asked since"
        await seen.hear(told(1100, 1007))
        assert any("w-1" in line and "17%" in line for line in seen.lines)


async def test_lines_that_do_not_fit_are_scrolled(tmp_path: Path) -> None:
    async with lesson(tmp_path, (80, 24)) as seen:
        seen.screen.live.told = tuple(f"line {number}." for number in range(60))
        seen.screen.live.turn(Pin(TOLD, "wire"))
        await seen.pass_time(0.0)
        assert "[Tab] then [↓ ↑] more" in seen.text
        assert "line 0." in seen.text
        assert "line 59." not in seen.text
        await seen.press("tab", "down")
        assert "line 0." not in seen.text
        await seen.press(*["pagedown"] * 9)
        assert "line 59." in seen.text
        await seen.pass_time(1.0)
        assert "line 59." in seen.text, "there it stays"
        seen.screen.live.told = ("short.",)
        await seen.pass_time(0.0)
        assert "short." in seen.text
        assert "more" not in seen.text.partition("wire")[2].splitlines()[0]


async def test_steps_of_before_are_not_a_lessons_own(tmp_path: Path) -> None:
    base, made = full_cache()
    async with looking(tmp_path, "steps", (100, 30), base, made[:40]) as seen:
        assert "mine-0" in seen.text
        live = seen.screen.live
        live.engine.since = made[39].started_unix + 0.001
        await seen.pass_time(0.0)
        assert "mine-0" not in seen.text
        assert "no step yet" in seen.text
        seen.app.on_stepped(Stepped("w-1", StepFrame(tuple(made[40:44]), TraceState(TraceMode.FULL, step=44))))
        await seen.pass_time(0.0)
        await seen.pass_time(0.0)
        assert "mine-0" in seen.text
        ruler = next(line for line in seen.lines if "request " in line)
        assert str(made[38].step) not in ruler
        assert str(made[40].step) in ruler
