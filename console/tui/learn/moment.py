"""A picture of a lesson while it runs: the screen at the busiest moment of an experiment, or with what came of it."""

from __future__ import annotations

import re
from typing import Final

from console.learn.stage import PlatformStage
from console.tui.learn.app import LearnApp
from console.tui.learn.lesson_screen import LessonScreen
from console.tui.learn.sheets import Kind
from console.tui.learn.walk import Walk
from console.tui.remote import Remote
from console.tui.render.look import RICH_LOOK
from control_plane.contracts.errors import NotFound
from lessons.faults import nearest
from lessons.model import Lesson, Observe
from lessons.progress import Progress

SIZE: Final = (100, 30)

_FACES: Final = re.compile(r"@font-face\s*\{.*?\}", re.DOTALL)


def best_step(lesson: Lesson) -> str:
    """The experiment that is drawn where none is named: the first of those that measure most."""
    experiments = [step for step in lesson.steps if isinstance(step, Observe)]
    return max(experiments, key=lambda step: len(step.measures)).id


async def moment(lesson: Lesson, step_id: str, *, result: bool, size: tuple[int, int] = SIZE) -> str:
    """An SVG of the real, running lesson. Raises NotFound for a step that is no experiment, and what the platform
    raises."""
    known = [step.id for step in lesson.steps if isinstance(step, Observe)]
    if step_id not in known:
        raise NotFound(f"no experiment {step_id!r} in {lesson.name}; {nearest(step_id, known)}", param="at")
    async with PlatformStage() as stage:
        remote = Remote(None, stage.target, "a lesson's platform")
        app = LearnApp(stage, Progress(), remote, remote, lesson, look=RICH_LOOK)
        busiest: list[tuple[float, str]] = []

        def look(screen: LessonScreen) -> None:
            if screen.standing.doing and (load := _load(app)) > (busiest[-1][0] if busiest else 0.0):
                app.paint()
                busiest.append((load, app.export_screenshot(title=lesson.title)))
                del busiest[:-1]

        async with app.run_test(size=size) as pilot:
            walk = Walk(pilot)
            await walk.began()
            await walk.go_to(step_id)
            await Walk(pilot, look).step()
            if result or not busiest:
                await walk.go_to(step_id, Kind.RESULT)
                app.paint()
                await pilot.pause()
                busiest.append((0.0, app.export_screenshot(title=lesson.title)))
        await app.settled()
    return local(busiest[-1][1])


def _load(app: LearnApp) -> float:
    """How much goes on: the fullest KV cache, and a little for each request."""
    view = app.live()
    fullest = max((worker.load.kv_usage for worker in view.workers if worker.load is not None), default=0.0)
    return fullest + 1e-3 * sum(request.phase.active for request in view.requests)


def local(svg: str) -> str:
    """With whatever monospaced font is there: nothing is loaded from elsewhere."""
    return _FACES.sub("", svg).replace("Fira Code", "monospace")
