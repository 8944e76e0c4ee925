"""The live view beside a lesson's words."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from console.tui.messages import Stepped
from control_plane.contracts.step import BlockSnapshot, EngineStep, StepFrame, TraceMode, TraceState
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
        assert f"‖ step {made[0].step}, {len(made) - 1} before the end" in seen.text, "to the beginning"
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
