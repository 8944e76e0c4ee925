"""What is in a recording, counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.record.kinds import Kind, Record
from console.record.reader import RecordingReader
from console.record.recording import Recording
from console.record.summary import summary
from control_plane.contracts.step import EngineStep, StepFrame
from control_plane.contracts.wire.packed import packed
from tests.unit.console.record.files import write
from tests.unit.console.record.platform import base, state


def steps_counted(path: Path, *frames: tuple[str, list[EngineStep]]) -> dict[str, int]:
    made = [
        Record(Kind.STEPS, 1_700_000_000.0 + n, packed(StepFrame(tuple(steps), state(9), base())), worker_id)
        for n, (worker_id, steps) in enumerate(frames)
    ]
    write(path, [made], force=True)
    with RecordingReader.open(path) as reader:
        return summary(Recording(reader), "a.deck").steps


def made(number: int, at: float = 0.0) -> list[EngineStep]:
    return [EngineStep(n, at + n) for n in range(1, number + 1)]


def test_steps_are_counted_for_each_worker_and_each_of_its_lives(tmp_path: Path) -> None:
    old, new = made(9), made(4, at=100.0)
    counted = steps_counted(tmp_path / "a.deck", ("w1", old), ("w2", made(3)), ("w1", new), ("w1", new[2:]))
    assert counted == {"w1": 13, "w2": 3}


def test_a_clock_that_is_set_back_loses_no_steps(tmp_path: Path) -> None:
    told = made(6)
    back = [replace(step, started_unix=step.started_unix - 50) for step in told[3:]]
    assert steps_counted(tmp_path / "a.deck", ("w1", told[:3]), ("w1", back)) == {"w1": 6}


@settings(max_examples=40, deadline=None)
@given(lives=st.lists(st.tuples(st.integers(1, 12), st.integers(0, 12), st.integers(1, 12)), max_size=5))
def test_what_a_second_recorder_hears_again_counts_once(
    tmp_path_factory: pytest.TempPathFactory, lives: list[tuple[int, int, int]]
) -> None:
    """Of the engine that lives then: its ring has no steps of an older one."""
    frames, whole = [], 0
    for life, (number, kept, heard) in enumerate(lives):
        steps = made(number, at=1000.0 * life)
        heard = min(heard, number)
        first = max(0, heard - kept)
        frames += [("w1", steps[:heard]), ("w1", steps[first:])]
        whole += number
    with_file = tmp_path_factory.getbasetemp() / "a.deck"
    assert steps_counted(with_file, ("w1", []), *frames) == {"w1": whole}
