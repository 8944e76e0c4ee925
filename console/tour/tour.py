"""The tour's frame: its own home, its steps in order, what is told when one fails, and that nothing is left."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from console.home import Home
from console.launch import Progress, StartFailed
from console.log_lines import readable, tail_of
from console.stopping import stop
from console.text import literal
from console.tour import steps
from console.tour.stage import Stage, StepFailed
from control_plane.contracts.errors import InferDeckError

CONFIG = """\
# Any free port, so that a tour meets nothing that runs already. All else by default: two vLLM workers.
[gateway]
port = 0

[api]
port = 0
"""

START_S = 1800.0
STEP_S = 600.0
TAIL_LINES = 12


class Tour:
    """``say`` prints a line of the tour. ``config`` replaces the default settings: two workers, ports of 0."""

    def __init__(self, say: Callable[[str], None], progress: Progress = lambda _: None, config: str = CONFIG) -> None:
        self._say = say
        self._progress = progress
        self._config = config

    async def go(self) -> bool:
        """Whether every step did what it says. Cancelled or failed, it still leaves nothing behind."""
        folder = Path(tempfile.mkdtemp(prefix="inferdeck-tour-"))
        stage = Stage(Home(folder), self._say)
        began = time.monotonic()
        self._say("InferDeck, from nothing to serving and back. Every figure is measured as you read.")
        try:
            (folder / "tour.toml").write_text(self._config)
            done = await self._steps(stage)
        finally:
            await asyncio.shield(self._leave_nothing(stage))
        if done:
            self._say("")
            self._say(f"Every step did what it says, in {time.monotonic() - began:.0f} s. Nothing is left behind.")
        return done

    async def _steps(self, stage: Stage) -> bool:
        plan: list[tuple[str, Callable[[], Awaitable[None]]]] = [
            ("Bring the platform up", lambda: steps.bring_up(stage, self._progress)),
            ("One answer, token by token", lambda: steps.stream_an_answer(stage)),
            ("The fleet", lambda: steps.show_the_fleet(stage)),
            (f"Drain a worker under {steps.STREAMS} streams, then take it back", lambda: steps.drain_under_load(stage)),
            ("Cancel a request and get its KV blocks back", lambda: steps.cancel_a_request(stage)),
            ("Shut down", lambda: steps.shut_down(stage)),
        ]
        for number, (title, do) in enumerate(plan, 1):
            self._say("")
            self._say(f"{number}  {title}")
            began = time.monotonic()
            try:
                async with asyncio.timeout(START_S if number == 1 else STEP_S):
                    await do()
            except TimeoutError:
                self._failed(stage, number, title, StepFailed(f"no end after {time.monotonic() - began:.0f} s"))
                return False
            except InferDeckError as error:
                self._failed(stage, number, title, error)
                return False
            self._say(f"   ✓ {time.monotonic() - began:.1f} s")
        return True

    def _failed(self, stage: Stage, number: int, title: str, error: InferDeckError) -> None:
        self._say(f"   ✗ step {number} ({title.lower()}) failed: {literal(error.message, keep=chr(10))}")
        if isinstance(error, StartFailed) and error.log:
            self._tail("what it wrote last", error.log)
            return
        for path in sorted(stage.home.folder.logs.glob("*.log")):
            lines = [text for line in tail_of(path, TAIL_LINES) for text in readable(line)]
            self._tail(path.name, lines)

    def _tail(self, name: str, lines: list[str]) -> None:
        if lines:
            self._say("")
            self._say(f"   {name}:")
            for line in lines:
                self._say(f"   | {line}")

    async def _leave_nothing(self, stage: Stage) -> None:
        """Whatever still runs is ended, and the folder goes."""
        try:
            if stage.own is not None:
                if stage.home.running() is not None:
                    await stop(stage.home, grace_s=0.0)
                stage.own.let_go()
                await stage.own.ended()
                await stop(stage.home, grace_s=0.0)
        finally:
            shutil.rmtree(stage.home.path, ignore_errors=True)
