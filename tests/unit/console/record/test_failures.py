"""What fails in the recorder itself, or under it: a gap, and it is begun again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from console.record import recorder as module
from console.record.kinds import Kind
from console.record.notes import EVENTS, Gap
from console.record.reader import RecordingReader
from console.record.recording import Recording
from control_plane.contracts.errors import Unavailable
from control_plane.contracts.fleet import Event
from control_plane.contracts.step import StepFrame
from tests.snapshots.memory import NOW, snapshot, worker
from tests.unit.console.record.platform import Platform, base, state, steps
from tests.unit.console.record.rig import entries, hurry, recording, values


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


@pytest.mark.parametrize(
    ("broken", "reason", "told"),
    [
        (ValueError("a step without a number"), "the recorder failed: ValueError: a step without a number", True),
        (asyncio.CancelledError(), "the call was cancelled", False),
        (Unavailable("socket closed"), "socket closed", False),
    ],
)
async def test_a_worker_is_followed_again_whatever_ends_its_steps(
    tmp_path: Path, broken: BaseException, reason: str, told: bool
) -> None:
    made = steps(1, 6)
    async with recording(tmp_path / "a.deck") as driven:
        await driven.hear(snapshot(workers=(worker("w1"),)))
        await driven.steps_of("w1", StepFrame(made[:3], state(3), base()))
        driven.platform.frames["w1"].put_nowait(broken)
        await driven.until(lambda: driven.platform.asked == [("w1", 0), ("w1", 4)])
        await driven.steps_of("w1", StepFrame(made[3:], state(6)))
        await driven.hear(snapshot(workers=(worker("w1"),)))
        assert driven.recorder.tally.gaps == 1
        assert driven.told == ([f"w1: {reason}"] if told else [])
    kinds = [entry.value for entry in entries(tmp_path / "a.deck", Kind.STEPS, Kind.GAP)]
    assert kinds == [StepFrame(made[:3], state(3), base()), Gap(reason), StepFrame(made[3:], state(6))]


async def test_steps_that_can_never_be_recorded_are_one_gap_and_asked_for_less_and_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    sleep: Callable[[float], Any] = asyncio.sleep

    async def noted(delay: float) -> None:
        if delay >= 0.01:
            waits.append(delay)
        await sleep(0)

    monkeypatch.setattr("asyncio.sleep", noted)
    monkeypatch.setattr(module, "LAST_RETRY_S", 0.08)
    async with recording(tmp_path / "a.deck") as driven:
        await driven.hear(snapshot(workers=(worker("w1"),)))
        for _ in range(6):
            driven.platform.frames["w1"].put_nowait(KeyError("request"))
        await driven.until(lambda: len(driven.platform.asked) == 7)
    assert waits == [0.01, 0.02, 0.04, 0.08, 0.08, 0.08]
    gaps = [(entry.subject, entry.value) for entry in entries(tmp_path / "a.deck", Kind.GAP)]
    assert gaps == [("w1", Gap("the recorder failed: KeyError: 'request'"))]


async def test_a_worker_that_leaves_after_a_failure_ends_nothing(tmp_path: Path) -> None:
    async with recording(tmp_path / "a.deck") as driven:
        await driven.hear(snapshot(workers=(worker("w1"),)))
        driven.platform.frames["w1"].put_nowait(ValueError("broken"))
        await driven.until(lambda: driven.recorder.tally.gaps == 1)
        await driven.hear(snapshot(), snapshot(revision=2))


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (ValueError("no such kind"), "the recorder failed: ValueError: no such kind"),
        (Unavailable("socket closed"), "socket closed"),
        (None, "the events ended"),
    ],
)
async def test_events_are_heard_again_whatever_ends_them(
    tmp_path: Path, broken: BaseException | None, reason: str
) -> None:
    first, second, third = (Event(n, NOW + n, "scaled", "pool/p", f"to {n}") for n in (1, 2, 3))
    platform = Platform(history=[first])
    async with recording(tmp_path / "a.deck", platform) as driven:
        await driven.hear(snapshot())
        await driven.until(lambda: driven.recorder.tally.events == 1)
        platform.history.append(second)  # while nobody listens
        platform.news.put_nowait(broken)
        await driven.until(lambda: driven.recorder.tally.events == 2)
        platform.news.put_nowait(third)
        await driven.until(lambda: driven.recorder.tally.events == 3)
        assert driven.recorder.tally.gaps == 1
        assert platform.connections == 1
    assert values(tmp_path / "a.deck", Event) == [first, second, third]
    (gap,) = entries(tmp_path / "a.deck", Kind.GAP)
    assert (gap.subject, gap.value) == (EVENTS, Gap(reason))
    with RecordingReader.open(tmp_path / "a.deck") as reader:
        assert not any(mark.gap for mark in Recording(reader).landmarks)  # the platform was there


async def test_the_oldest_events_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_EVENTS_KNOWN", 3)
    told = [Event(n, NOW + n, "scaled", "pool/p", "") for n in range(5)]
    platform = Platform(history=list(told))
    async with recording(tmp_path / "a.deck", platform) as driven:
        await driven.hear(snapshot())
        await driven.until(lambda: driven.recorder.tally.events == 5)
        assert list(driven.recorder._known) == [(event.at_unix, event.seq) for event in told[2:]]
        platform.history[:] = told[2:]
        platform.news.put_nowait(None)
        platform.news.put_nowait(Event(9, NOW + 9, "scaled", "pool/p", "after"))
        await driven.until(lambda: driven.recorder.tally.events == 6)
    assert [event.seq for event in values(tmp_path / "a.deck", Event)] == [0, 1, 2, 3, 4, 9]
