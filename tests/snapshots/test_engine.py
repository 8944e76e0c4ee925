"""What the engine screen looks like, on the steps of a small scheduler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from console.tui.app import ConsoleApp
from console.tui.messages import Stepped
from console.tui.render.look import PLAIN, SIXTEEN_COLOURS, Look
from control_plane.contracts.step import BlockSnapshot, EngineStep, StepFrame, TraceMode, TraceState
from tests.snapshots.memory import MemoryPlatform
from tests.snapshots.steps import Job, SmallEngine, busy
from tests.snapshots.test_screens import Compare, seen, utc

__all__ = ["utc"]

SMALL, LARGE = (80, 24), (120, 36)
Then = Callable[[ConsoleApp, MemoryPlatform, list[float]], None]
OPEN = "engine smollm2-1"


def tells(base: BlockSnapshot, steps: list[EngineStep], trace: TraceState | None = None) -> Then:
    def then(app: ConsoleApp, platform: MemoryPlatform, clock: list[float]) -> None:
        frame = StepFrame(tuple(steps), trace or TraceState(TraceMode.FULL, step=steps[-1].step), base)
        app.on_stepped(Stepped("smollm2-1", frame, anew=True))

    return then


def made(steps: int) -> Then:
    _, base, told = busy(steps)
    return tells(base, told)


def full() -> Then:
    """More than fits: preemptions, and a queue."""
    engine = SmallEngine(total=60, seats=8)
    base, told = engine.snapshot(), []
    for number in range(90):
        if number % 4 == 0:
            engine.add(Job(f"req-{0xA100 + number:x}", 90 + 37 * number % 300, 30 + number % 50, prefix="p"))
        told.append(engine.run())
    return tells(base, told)


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_engine(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert seen(snap_compare, size, OPEN, then=made(140))


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_engine_under_pressure(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert seen(snap_compare, size, OPEN, then=full())


def test_engine_gone_back(snap_compare: Compare) -> None:
    def then(app: ConsoleApp, platform: MemoryPlatform, clock: list[float]) -> None:
        made(140)(app, platform, clock)
        app.screen.go_to(105)  # type: ignore[attr-defined]

    assert seen(snap_compare, LARGE, OPEN, then=then)


def test_engine_with_steps_lost(snap_compare: Compare) -> None:
    def then(app: ConsoleApp, platform: MemoryPlatform, clock: list[float]) -> None:
        _, base, told = busy(120)
        kept = [replace(step, dropped=6 if step.step > 100 else 0) for step in told if not 94 < step.step < 101]
        tells(base, kept, TraceState(TraceMode.FULL, dropped=6))(app, platform, clock)

    assert seen(snap_compare, LARGE, OPEN, then=then)


def test_engine_on_sixteen_colours_and_few_glyphs(snap_compare: Compare) -> None:
    assert seen(snap_compare, SMALL, OPEN, then=made(140), look=Look(SIXTEEN_COLOURS, PLAIN, "ansi-dark"))


def test_engine_without_a_trace(snap_compare: Compare) -> None:
    def then(app: ConsoleApp, platform: MemoryPlatform, clock: list[float]) -> None:
        why = "this engine is the scripted one, which has no steps"
        app.on_stepped(Stepped("smollm2-1", StepFrame(trace=TraceState(unavailable=why))))

    assert seen(snap_compare, SMALL, OPEN, then=then)
