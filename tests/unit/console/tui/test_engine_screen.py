"""The engine screen at its keys: live, paused, back and forth, and when there is nothing to show."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from console.tui.route import Route
from console.tui.screens.engine import EngineScreen
from console.tui.screens.go_to_step import GoToStepScreen
from console.tui.widgets.lines import changed
from console.tui.widgets.step_grid import StepGrid
from control_plane.contracts.errors import Unavailable
from control_plane.contracts.fleet import RequestPhase
from control_plane.contracts.step import StepFrame, TraceMode, TraceState
from tests.snapshots.memory import NOW, request, snapshot
from tests.snapshots.steps import Job, SmallEngine, busy
from tests.unit.console.tui.harness import Console, console
from tests.unit.console.tui.test_hostile import HOSTILE
from tests.unit.console.tui.test_hostile import check as check_literal
from tests.unit.console.tui.test_sizes import check

FULL = TraceState(TraceMode.FULL)


@asynccontextmanager
async def engine(
    size: tuple[int, int] = (120, 36), steps: int = 100, **options: Any
) -> AsyncIterator[tuple[Console, SmallEngine]]:
    """The screen, live on an engine that has made so many steps."""
    scheduler, base, made = busy(steps)
    async with console(size=size, **options) as seen:
        await seen.command("engine smollm2-1")
        await step(seen, StepFrame(tuple(made), FULL, base))
        yield seen, scheduler


async def step(seen: Console, frame: StepFrame) -> None:
    """The worker sends this, and the screen has been painted since."""
    screen = seen.app.screen
    assert isinstance(screen, EngineScreen)
    seen.platform.step_queue.put_nowait(frame)
    if frame.steps:
        await seen.until(lambda: screen.engine.steps.tape().last == frame.steps[-1].step)
    else:
        await seen.until(lambda: screen.engine.steps.trace == frame.trace)
    seen.app.paint()
    await seen.settle()


def cursor(seen: Console) -> str | None:
    return seen.app.screen.query_one(StepGrid).current


async def test_from_the_worker_to_its_engine_and_back() -> None:
    async with console() as seen:
        await seen.command("worker smollm2-1")
        await seen.press("e")
        assert "engine ▸ smollm2-1" in seen.text
        assert ("steps", "smollm2-1") in seen.platform.calls
        assert "asking the worker for its steps" in seen.text
        await seen.press("escape")
        assert "worker ▸ smollm2-1" in seen.text


async def test_what_the_last_step_did() -> None:
    async with engine() as (seen, scheduler):
        last = scheduler.running[-1]
        row = next(line for line in seen.lines if last.id in line)
        assert f"joined {100}" in row
        assert "▒" in row
        assert "step 100" in seen.text
        assert "trace full, 0 dropped" in seen.text
        used = scheduler.snapshot().used_blocks
        assert f"{used} used" in seen.text


async def test_live_it_goes_on() -> None:
    async with engine() as (seen, scheduler):
        await step(seen, StepFrame((scheduler.run(), scheduler.run()), FULL))
        assert "step 102" in seen.text


async def test_a_pause_stands_still_while_steps_are_collected() -> None:
    async with engine() as (seen, scheduler):
        await seen.press("space")
        assert "‖ step 100" in seen.text
        body = seen.lines[2:]
        await step(seen, StepFrame(tuple(scheduler.run() for _ in range(5)), FULL))
        assert seen.lines[2:] == body
        await seen.press("space")
        assert "step 105" in seen.text
        assert "‖" not in seen.text


async def test_back_and_forth() -> None:
    async with engine() as (seen, scheduler):
        await seen.press("left")
        assert "‖ step 99, 1 before the end" in seen.text
        await seen.press("shift+left")
        assert "‖ step 89, 11 before the end" in seen.text
        await seen.press("right")
        assert "‖ step 90" in seen.text
        await seen.press("home")
        assert "‖ step 1, 99 before the end" in seen.text
        assert "95 free" in seen.text or "96 blocks" in seen.text
        await step(seen, StepFrame((scheduler.run(),), FULL))
        for _ in range(11):
            await seen.press("shift+right")
        assert "‖ step 101" in seen.text
        await seen.press("end")
        assert "‖" not in seen.text


async def test_going_back_shows_the_tables_of_then() -> None:
    async with engine() as (seen, _):
        await seen.press("g", "4", "0", "enter")
        past = SmallEngine(total=96, seats=10)
        replayed, _, steps = busy(40)
        assert replayed.total == past.total
        assert "‖ step 40" in seen.text
        assert f"{steps[-1].used_blocks} used" in seen.text
        assert f"{steps[-1].cached_free_blocks} cached" in seen.text


async def test_to_a_step_that_is_not_kept() -> None:
    async with engine() as (seen, _):
        await seen.press("g")
        assert isinstance(seen.app.screen, GoToStepScreen)
        assert "1 to 100 are kept" in seen.text
        await seen.press("x", "enter")
        assert isinstance(seen.app.screen, GoToStepScreen)
        await seen.press("7", "0", "0", "0", "enter")
        assert "step 7000 is not kept: this is step 100" in seen.text
        await seen.press("g", "escape")
        assert "‖ step 100" in seen.text


async def test_enter_opens_the_request_and_the_cursor_stays_with_it() -> None:
    async with engine() as (seen, scheduler):
        await seen.press("down", "down")
        chosen = scheduler.running[2].id
        assert cursor(seen) == chosen
        await seen.press("s")
        assert "sorted by blocks" in seen.text
        assert cursor(seen) == chosen
        await seen.press("enter")
        assert f"request ▸ {chosen}" in seen.text
        await seen.press("escape")
        assert "engine ▸ smollm2-1" in seen.text


async def test_a_further_choice_is_its_call_in_the_fleet() -> None:
    scheduler = SmallEngine()
    base = scheduler.snapshot()
    scheduler.add(Job("req-1#2", 40, 10))
    first = snapshot(requests=(request("req-1", phase=RequestPhase.DECODING),))
    async with console(first=first) as seen:
        await seen.command("engine smollm2-1")
        await step(seen, StepFrame((scheduler.run(),), FULL, base))
        await seen.press("ctrl+x")
        assert "Cancel request req-1" in seen.text
        await seen.press("escape", "enter")
        assert "request ▸ req-1 " in seen.text


async def test_the_filter_takes_text() -> None:
    async with engine() as (seen, scheduler):
        wanted = scheduler.running[1].id
        await seen.type(f"/{wanted}")
        assert seen.app.screen.query_one(StepGrid).shown == [wanted]
        await seen.press("escape")
        assert len(seen.app.screen.query_one(StepGrid).shown) > 1


async def test_the_trace_is_switched() -> None:
    async with engine() as (seen, _):
        for mode, every, words in ((TraceMode.OFF, 1, "trace off"), (TraceMode.SAMPLED, 10, "trace 1 in 10")):
            await seen.press("t")
            await seen.until(lambda words=words: words in seen.text)  # type: ignore[misc]
            assert seen.platform.done[-1] == ("trace", "smollm2-1", mode, every)
        await seen.press("t")
        await seen.until(lambda: "trace full" in seen.text)


async def test_a_trace_that_cannot_be_switched_says_why() -> None:
    async with engine(refuse=Unavailable("the engine is busy dying")) as (seen, _):
        await seen.press("t")
        await seen.until(lambda: "the engine is busy dying" in seen.text)
    async with engine(readonly=True) as (seen, _):
        await seen.press("t")
        assert "read-only" in seen.text
        assert seen.platform.done == []


async def test_an_engine_without_a_trace_says_why() -> None:
    async with console() as seen:
        await seen.command("engine smollm2-1")
        reason = "vLLM 0.99 is not one whose inside is known"
        await step(seen, StepFrame((), TraceState(unavailable=reason)))
        assert f"no steps: {reason}" in seen.words
        await seen.press("t", "left", "space", "g", "s", "enter", "ctrl+x")
        assert reason in seen.words


@pytest.mark.parametrize(
    ("trace", "words"),
    [(TraceState(TraceMode.OFF), "the trace is off"), (FULL, "no step yet")],
)
async def test_no_step_yet(trace: TraceState, words: str) -> None:
    async with console() as seen:
        await seen.command("engine smollm2-1")
        await step(seen, StepFrame((), trace, SmallEngine().snapshot()))
        await seen.pass_time(0.5)
        assert words in seen.text


async def test_an_unknown_worker() -> None:
    async with console() as seen:
        seen.app.go(Route("engine", "nobody"))
        await seen.pass_time(0.5)
        assert "no worker nobody is known" in seen.text


@pytest.mark.parametrize("view", ["worker", "engine"])
async def test_no_page_is_opened_for_a_worker_that_is_none(view: str) -> None:
    async with console() as seen:
        await seen.command(f"{view} nope")
        assert "worker nope does not exist" in seen.text
        assert seen.app.screen.__class__.__name__ == "SystemScreen"
        await seen.command(f"{view} smollm2-1")
        assert seen.app.screen.__class__.__name__ == f"{view.title()}Screen"


async def test_a_worker_that_is_lost_leaves_its_last_steps() -> None:
    async with engine() as (seen, _):
        seen.platform.step_queue.put_nowait(Unavailable("worker smollm2-1 does not answer"))
        await seen.until(lambda: "does not answer: these are the last steps known" in seen.text)
        assert "req-5f" in seen.text


async def test_where_steps_were_lost_the_engine_is_asked() -> None:
    scheduler, base, steps = busy(60)
    async with console(size=(160, 40)) as seen:
        await seen.command("engine smollm2-1")
        seen.platform.snapshot = scheduler.snapshot()
        lost = [replace(s, dropped=3 if s.step > 50 else 0) for s in steps if s.step not in (48, 49, 50)]
        await step(seen, StepFrame(tuple(lost), FULL, base))
        screen = seen.app.screen
        assert isinstance(screen, EngineScreen)
        await seen.until(lambda: not screen.engine.steps.doubtful)
        assert seen.platform.calls.count(("blocks", "smollm2-1")) == 1
        assert "┊" in seen.text
        await seen.pass_time(60)
        assert seen.platform.calls.count(("blocks", "smollm2-1")) == 1


@pytest.mark.parametrize("size", [(60, 16), (61, 17), (80, 24), (99, 20), (100, 30), (160, 48), (231, 60)])
async def test_every_size(size: tuple[int, int]) -> None:
    async with engine(size=size) as (seen, _):
        check(seen)
        assert "KV cache" in seen.text
        assert "step 100" in seen.text
        await seen.press("left", "down")
        check(seen)


async def test_resizing_and_too_small() -> None:
    async with engine() as (seen, scheduler):
        for size in ((40, 10), (1, 1), (80, 24), (200, 16), (60, 60)):
            await seen.pilot.resize_terminal(*size)
            await step(seen, StepFrame((scheduler.run(),), FULL))
            check(seen)
            await seen.press("left", "t", "end")
        assert "KV cache" in seen.text


async def test_more_requests_than_lines() -> None:
    scheduler = SmallEngine(total=4000, seats=64, budget=512)
    base = scheduler.snapshot()
    for number in range(90):
        scheduler.add(Job(f"many-{number:02}", 40, 50))
    async with console(size=(100, 24)) as seen:
        await seen.command("engine smollm2-1")
        await step(seen, StepFrame(tuple(scheduler.run() for _ in range(20)), FULL, base))
        assert "of 90" in seen.text
        assert "blocks of 32 tokens, 8 a cell: " in seen.text
        assert "26 waiting  next many-64" in seen.text
        for _ in range(20):
            await seen.press("pagedown")
        assert cursor(seen) == "many-89"
        assert "many-89" in seen.text
        check(seen)


async def test_hostile_names_are_shown_literally() -> None:
    for name in (*HOSTILE, "日本語のリクエスト" * 4, "e\u0301\u0302\u0303" * 20):
        scheduler = SmallEngine(total=40, seats=1)
        base = scheduler.snapshot()
        scheduler.add(Job(name, 100, 50))
        scheduler.add(Job(name + "2", 600, 50))
        async with console(size=(160, 24), first=snapshot(NOW)) as seen:
            await seen.command("engine smollm2-1")
            await step(seen, StepFrame(tuple(scheduler.run() for _ in range(9)), TraceState(TraceMode.FULL), base))
            check_literal(seen)
            assert "1 waiting" in seen.text
            await seen.press("enter")
            check_literal(seen)
    async with console() as seen:
        await seen.command("engine smollm2-1")
        await step(seen, StepFrame((), TraceState(unavailable="[red]\x1b[31mno\n")))
        check_literal(seen)
        assert "[red]\\x1b[31mno\\n" in seen.text


def test_only_what_changed_is_drawn_again() -> None:
    from rich.style import Style

    plain = Style()
    assert changed([("abc", plain)], [("abc", plain)], 10) == (0, 0)
    assert changed([("ab", plain), ("c", plain), ("de", plain)], [("ab", plain), ("x", plain), ("de", plain)], 10) == (
        2,
        3,
    )
    assert changed([("ab", plain), ("c", plain)], [("ab", plain), ("cd", plain)], 10) == (2, 10)
    assert changed([("日本", plain), ("c", plain)], [("日本", plain), ("x", plain)], 10) == (4, 5)
    assert changed([("a" * 12, plain), ("b", plain)], [("a" * 12, plain), ("c", plain)], 10) == (9, 10)
    assert changed([], [("abc", plain)], 10) == (0, 10)
