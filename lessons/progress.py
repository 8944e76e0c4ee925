"""How far a learner is: a plain JSON file that can be read, copied and thrown away.

::

    {"07-worker-selection": {"at": "race", "finished": false, "measured": {"ttft-rr": 1.2},
                             "steps": {"guess": {"state": "done", "answer": "b", "tries": 1, "hints": 0}}}}
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from control_plane.contracts.errors import InferDeckError
from lessons.observation import Value


class State(StrEnum):
    OPEN = "open"
    DONE = "done"
    SKIPPED = "skipped"


@dataclass(slots=True)
class StepRecord:
    """``answer`` is as it was typed; ``hints`` is how many were shown."""

    state: State = State.OPEN
    answer: str = ""
    tries: int = 0
    hints: int = 0


@dataclass(slots=True)
class LessonRecord:
    """``at`` is the id of the step that is on the screen."""

    at: str = ""
    finished: bool = False
    steps: dict[str, StepRecord] = field(default_factory=dict)
    measured: dict[str, Value | None] = field(default_factory=dict)

    def of(self, step_id: str) -> StepRecord:
        return self.steps.setdefault(step_id, StepRecord())

    def settled(self) -> int:
        return sum(step.state is not State.OPEN for step in self.steps.values())

    def skipped(self) -> int:
        return sum(step.state is State.SKIPPED for step in self.steps.values())


class ProgressLost(InferDeckError):
    """The file is there and cannot be used."""


@dataclass(slots=True)
class Progress:
    """``path`` None keeps it in memory alone."""

    path: Path | None = None
    lessons: dict[str, LessonRecord] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Progress:
        """Raises ProgressLost for a file that is not one of ours: it is never written over."""
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return cls(path)
        except (OSError, UnicodeDecodeError) as error:
            raise ProgressLost(f"{path} cannot be read: {error}", hint=f"mv {path} {path}.old") from None
        try:
            return cls(path, {name: _lesson(raw) for name, raw in json.loads(text).items()})
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise ProgressLost(f"{path} is no progress file: {error}", hint=f"mv {path} {path}.old") from None

    def lesson(self, name: str) -> LessonRecord:
        return self.lessons.setdefault(name, LessonRecord())

    def save(self) -> None:
        """Whole or not at all. Raises ProgressLost."""
        if self.path is None:
            return
        text = json.dumps({name: asdict(lesson) for name, lesson in self.lessons.items()}, indent=1)
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self.path.parent)
            try:
                with open(handle, "w", encoding="utf-8") as file:
                    file.write(text + "\n")
                os.replace(name, self.path)
            except OSError:
                with contextlib.suppress(OSError):
                    os.unlink(name)
                raise
        except OSError as error:
            raise ProgressLost(f"{self.path} cannot be written: {error.strerror or error}") from None


def _lesson(raw: dict[str, Any]) -> LessonRecord:
    steps = {
        str(name): StepRecord(State(step["state"]), str(step["answer"]), int(step["tries"]), int(step["hints"]))
        for name, step in raw["steps"].items()
    }
    measured: dict[str, Value | None] = {}
    for name, value in raw["measured"].items():
        if value is not None and not isinstance(value, str | int | float):
            raise ValueError(f"{name} was not measured so")
        measured[str(name)] = float(value) if isinstance(value, int) else value
    return LessonRecord(str(raw["at"]), bool(raw["finished"]), steps, measured)
