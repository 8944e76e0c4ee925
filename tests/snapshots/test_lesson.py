"""What each kind of step of a lesson looks like, on fixed data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from console.learn.entries import Entry
from console.readiness import Readiness, Step
from console.tui.learn import lessons_screen
from console.tui.learn.app import LearnApp
from console.tui.learn.lesson_screen import LessonScreen
from console.tui.messages import Heard, Stepped
from console.tui.render.look import PLAIN, RICH_LOOK, SIXTEEN_COLOURS, Look
from control_plane.contracts.errors import Unavailable
from control_plane.contracts.fleet import Snapshot
from control_plane.contracts.step import StepFrame, TraceMode, TraceState
from lessons.loader import load
from lessons.progress import LessonRecord, Progress, State, StepRecord
from tests.snapshots.lesson_stage import LessonStage
from tests.snapshots.memory import NOW, MemoryPlatform, snapshot, worker
from tests.snapshots.settled import always, settled
from tests.snapshots.steps import busy
from tests.snapshots.test_screens import Compare, utc

__all__ = ["utc"]

FOLDER = Path(__file__).parent / "lessons" / "12-every-kind"
SMALL, MIDDLE = (80, 24), (100, 30)
SIZES = pytest.mark.parametrize("size", [SMALL, MIDDLE])
MEASURED = {"full": 1.0, "failed": 0.0, "which": "w-2", "first": 3.62}
ANSWERS = {"guess-full": "60", "guess-failed": "b", "guess-worker": "w-2"}

Then = Callable[[LearnApp, LessonStage, Pilot[Any]], Any]


def pair(at: float) -> Snapshot:
    pace = (at - NOW) / 120
    views = (worker("w-1", 0.3 + 0.5 * pace, at), worker("w-2", 0.2 + 0.3 * pace, at))
    return snapshot(at, tuple(replace(view, pool="w") for view in views), 8)


def reached(step_id: str, *, skipped: str = "", here: State = State.OPEN) -> Progress:
    """Progress of somebody who did everything before this step."""
    lesson = load(FOLDER)
    steps: dict[str, StepRecord] = {}
    for step in lesson.steps:
        if step.id == step_id:
            steps[step.id] = StepRecord(here)
            break
        state = State.SKIPPED if step.id == skipped else State.DONE
        steps[step.id] = StepRecord(state, ANSWERS.get(step.id, ""))
    return Progress(None, {lesson.name: LessonRecord(step_id, False, steps, dict(MEASURED))})


def seen(
    compare: Compare,
    size: tuple[int, int],
    progress: Progress,
    *keys: str,
    stage: LessonStage | None = None,
    then: Callable[[LearnApp], None] | None = None,
    waits: bool = True,
    look: Look = RICH_LOOK,
    listed: bool = False,
) -> bool:
    """A lesson whose platform was heard for two minutes, after these keys."""
    stage, platform, clock = stage or LessonStage(), MemoryPlatform(), [1000.0]
    lesson = None if listed else load(FOLDER)
    app = LearnApp(
        stage,
        progress,
        platform,
        platform,
        lesson,
        look=look,
        paint_s=3600.0,
        silence_s=1e6,
        clock=lambda: clock[0],
    )

    def idle() -> bool:
        return not (isinstance(app.screen, LessonScreen) and app.screen.standing.busy)

    async def prepare(pilot: Pilot[Any]) -> None:
        if waits:
            await settled(pilot, idle)
            for step in range(240):
                clock[0] += 0.5
                app.on_heard(Heard(pair(NOW + step / 2)))
        for key in keys:
            app.paint()
            await pilot.press(key)
            await settled(pilot, idle if waits else always)
        if then is not None:
            then(app)
        clock[0] += 4.0
        await settled(pilot)
        app.on_heard(Heard(pair(NOW + 120))) if waits else None
        app.paint()
        await settled(pilot)
        app.paint()
        await settled(pilot)

    return compare(app, terminal_size=size, run_before=prepare)


def steps_of(app: LearnApp) -> None:
    _, base, told = busy(140)
    app.on_stepped(Stepped("w-1", StepFrame(tuple(told), TraceState(TraceMode.FULL, step=140), base), anew=True))


@SIZES
def test_reveal(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert seen(snap_compare, size, reached("idea"))


@SIZES
def test_show_workers(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert seen(snap_compare, size, reached("look"))


@SIZES
def test_show_the_inside_of_an_engine(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert seen(snap_compare, size, reached("inside"), then=steps_of)


@SIZES
def test_predict_a_number(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert seen(snap_compare, size, reached("guess-full"), "6", "2", "h")


@SIZES
def test_predict_by_choice(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert seen(snap_compare, size, reached("guess-failed"), "b")


@SIZES
def test_predict_a_worker(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert seen(snap_compare, size, reached("guess-worker"), "down")


@SIZES
def test_observe_while_it_runs(snap_compare: Compare, size: tuple[int, int]) -> None:
    stage = LessonStage()

    def hold(app: LearnApp) -> None:
        stage.gate.clear()
        app.screen.action_enter()  # type: ignore[attr-defined]

    assert seen(snap_compare, size, reached("experiment"), stage=stage, then=hold)


@SIZES
def test_observe_with_its_result(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert seen(snap_compare, size, reached("experiment", here=State.DONE), "right")


@SIZES
def test_why(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert seen(snap_compare, size, reached("experiment", here=State.DONE), "right", "right")


@SIZES
def test_quiz_with_a_wrong_answer(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert seen(snap_compare, size, reached("why"), "a", "enter")


@SIZES
def test_do(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert seen(snap_compare, size, reached("break"))


@SIZES
def test_check_that_fails(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert seen(snap_compare, size, reached("repair"), "enter")


@SIZES
def test_check_skipped(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert seen(snap_compare, size, reached("repair"), "s")


def test_check_with_the_keys_in_the_live_view(snap_compare: Compare) -> None:
    assert seen(snap_compare, MIDDLE, reached("repair"), "tab", "down")


@SIZES
def test_remember(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert seen(snap_compare, size, reached("remember", skipped="repair"))


@SIZES
def test_starting(snap_compare: Compare, size: tuple[int, int]) -> None:
    stage = LessonStage()
    stage.gate.clear()

    def comes_up(app: LearnApp) -> None:
        steps = (
            Step("gateway/g1", False, "starting"),
            Step("worker/w-1", True, "ready in 0.4 s"),
            Step("worker/w-2", False, "starting"),
        )
        app.screen.readying(Readiness(False, steps))  # type: ignore[attr-defined]

    assert seen(snap_compare, size, reached("idea"), stage=stage, then=comes_up, waits=False)


def test_a_platform_that_does_not_come(snap_compare: Compare) -> None:
    stage = LessonStage()
    stage.refuses = Unavailable("worker/w-1 failed 3 times: no memory", hint="inferdeck doctor")
    assert seen(snap_compare, SMALL, reached("idea"), stage=stage, waits=False)


def test_reset(snap_compare: Compare) -> None:
    assert seen(snap_compare, SMALL, reached("why"), "r")


@SIZES
def test_a_lesson_that_is_done(snap_compare: Compare, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lessons_screen, "entries", lambda progress: [])
    progress = reached("remember", skipped="repair", here=State.DONE)
    (record,) = progress.lessons.values()
    record.finished = True
    assert seen(snap_compare, size, progress)


def test_on_sixteen_colours_and_few_glyphs(snap_compare: Compare) -> None:
    progress = reached("experiment", here=State.DONE)
    assert seen(snap_compare, SMALL, progress, "right", look=Look(SIXTEEN_COLOURS, PLAIN, "ansi-dark"))


@SIZES
def test_the_list(snap_compare: Compare, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    there = [
        Entry("03-stream-and-cancel", "Stream and cancel", 10, "the simulator", 12, 12, 1, True),
        Entry("05-kv-cache-fills-up", "The KV cache fills up", 10, "the simulator", 12, 5, 0, False),
        Entry("07-worker-selection", "The router: worker selection", 12, "the simulator", 14, 0, 0, False),
        Entry("11-paged-attention", "Paged attention", 10, "real vLLM", 14, 0, 0, False),
    ]
    monkeypatch.setattr(lessons_screen, "entries", lambda progress: there)
    assert seen(snap_compare, size, Progress(), listed=True)
