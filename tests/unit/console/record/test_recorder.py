"""The recorder: what a platform tells is in the file, through all that can happen to the platform."""

from __future__ import annotations

import asyncio
import errno
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from console.record.kinds import Kind
from console.record.notes import End, Gap
from console.record.reader import RecordingReader
from console.record.recording import Recording
from console.record.summary import summary
from console.record.writer import RecordingStopped, RecordingWriter
from console.tui.live.steps import StepLog
from control_plane.contracts.block_tables import BlockTables
from control_plane.contracts.decision import DecisionView
from control_plane.contracts.errors import Unavailable
from control_plane.contracts.fleet import Event, Snapshot, WorkerPhase
from control_plane.contracts.step import StepFrame, TraceState
from tests.decisions import decision, waited
from tests.snapshots.memory import NOW, request, snapshot, worker
from tests.unit.console.record.platform import Platform, base, state, steps
from tests.unit.console.record.rig import PATIENCE_S, entries, hurry, recording, values


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


async def test_snapshots_are_read_as_they_were_told(tmp_path: Path) -> None:
    told = [snapshot(NOW + n / 2, revision=n + 1, requests=n) for n in range(50)]
    async with recording(tmp_path / "a.deck") as driven:
        await driven.hear(*told)
    assert values(tmp_path / "a.deck", Snapshot) == told
    assert [entry.unix for entry in entries(tmp_path / "a.deck", Kind.SNAPSHOT, Kind.CHANGES)] == [
        NOW + n / 2 for n in range(50)
    ]
    assert values(tmp_path / "a.deck", End) == [End("the test is over")]


async def test_reading_can_begin_at_every_keyframe(tmp_path: Path) -> None:
    told = [snapshot(NOW + n / 2, revision=n + 1) for n in range(70)]
    async with recording(tmp_path / "a.deck") as driven:
        await driven.hear(*told)
    with RecordingReader.open(tmp_path / "a.deck") as reader:
        found = Recording(reader)
        keyframes = [index for index, frame in enumerate(reader.frames) if frame.head.keyframe]
        assert len(keyframes) == 4
        for index in keyframes:
            first = next(found.entries(index))
            assert first.value in told
            assert reader.keyframe_before(first.unix) == index
            assert reader.keyframe_before(first.unix + 9.0) == index
            rest = [entry.value for entry in found.entries(index) if isinstance(entry.value, Snapshot)]
            assert rest == told[told.index(rest[0]) :]


async def test_a_clock_that_never_stands_still(tmp_path: Path) -> None:
    """Between a snapshot and the block tables of its keyframe too."""
    told = [snapshot(NOW + n / 2, revision=n + 1, workers=(worker("w1"),)) for n in range(30)]
    async with recording(tmp_path / "a.deck", ticking=True) as driven:
        await driven.hear(told[0])
        await driven.steps_of("w1", StepFrame(steps(1, 5), state(5), base()))
        await driven.hear(*told[1:])
    assert values(tmp_path / "a.deck", Snapshot) == told
    assert len(entries(tmp_path / "a.deck", Kind.TABLES)) == 1


async def test_events_are_recorded_once(tmp_path: Path) -> None:
    old, new = Event(1, NOW - 9, "scaled", "pool/p", "to 2"), Event(2, NOW, "worker_lost", "worker/w", "gone", "error")
    platform = Platform(history=[old])
    async with recording(tmp_path / "a.deck", platform) as driven:
        await driven.hear(snapshot())
        await driven.until(lambda: driven.recorder.tally.events == 1)
        platform.news.put_nowait(new)
        await driven.until(lambda: driven.recorder.tally.events == 2)
        platform.history.append(new)
        platform.snapshots.put_nowait(Unavailable("socket closed"))
        await driven.until(lambda: platform.connections == 2)
        await driven.hear(snapshot())
    assert values(tmp_path / "a.deck", Event) == [old, new]
    with RecordingReader.open(tmp_path / "a.deck") as reader:
        marks = Recording(reader).landmarks
        assert [mark.event for mark in marks if mark.event] == [new]  # the other one is history
        assert [mark.gap.reason for mark in marks if mark.gap] == ["socket closed"]


async def test_a_lost_control_plane_is_a_gap_and_recording_goes_on(tmp_path: Path) -> None:
    platform = Platform()
    async with recording(tmp_path / "a.deck", platform) as driven:
        await driven.hear(snapshot())
        platform.away = [Unavailable("connection refused")] * 3
        platform.snapshots.put_nowait(Unavailable("socket closed"))
        await driven.until(lambda: platform.connections == 2)
        await driven.hear(snapshot(NOW + 9, revision=2))
        assert driven.told == ["socket closed: trying again", "the platform is back"]
        assert driven.recorder.tally.gaps == 1
    seen = [type(entry.value).__name__ for entry in entries(tmp_path / "a.deck", Kind.SNAPSHOT, Kind.GAP)]
    assert [name for name in seen if name != "Gap"] == ["Snapshot", "Snapshot"]
    assert [e.value for e in entries(tmp_path / "a.deck") if isinstance(e.value, Gap) and not e.subject] == [
        Gap("socket closed")
    ]


async def test_a_platform_that_is_not_there_at_first_is_an_error(tmp_path: Path) -> None:
    platform = Platform(away=[Unavailable("connection refused")])

    async def begin() -> None:
        async with recording(tmp_path / "a.deck", platform) as driven:
            await driven.recorder.run(driven.ending)

    with pytest.raises(Unavailable, match="connection refused"):
        await begin()


async def test_steps_of_every_worker_that_comes_and_goes(tmp_path: Path) -> None:
    one, two = worker("w1"), worker("w2")
    first, second = steps(1, 3), steps(1, 4, request="other")
    async with recording(tmp_path / "a.deck") as driven:
        await driven.hear(snapshot(workers=(one,)))
        await driven.steps_of("w1", StepFrame(first[:2], state(2), base()), StepFrame(first[2:], state(3)))
        await driven.hear(snapshot(workers=(one, two)))
        await driven.steps_of("w2", StepFrame(second, state(4), base()))
        await driven.hear(snapshot(workers=(two,)))
        assert driven.platform.asked == [("w1", 0), ("w2", 0)]
        assert driven.recorder.tally.steps == 7
    found = {name: recorded_steps(tmp_path / "a.deck", name) for name in ("w1", "w2")}
    assert found == {"w1": list(first), "w2": list(second)}


async def test_a_worker_that_died_is_followed_from_its_new_beginning(tmp_path: Path) -> None:
    old, new = worker("w1"), worker("w1")
    assert new.info is not None
    new = replace(new, info=replace(new.info, instance_id="another"))
    first, second = steps(1, 5), steps(1, 3, request="after", at=NOW + 50)
    async with recording(tmp_path / "a.deck") as driven:
        await driven.hear(snapshot(workers=(old,)))
        await driven.steps_of("w1", StepFrame(first, state(5), base()))
        driven.platform.frames["w1"].put_nowait(Unavailable("worker w1 is gone"))
        await driven.hear(snapshot(workers=(replace(old, phase=WorkerPhase.FAILED),)))
        await driven.hear(snapshot(workers=(new,)))
        await driven.until(lambda: len(driven.platform.asked) >= 2)
        driven.platform.frames["w1"].put_nowait(Unavailable("not yet"))  # whichever call still waits
        await driven.until(lambda: driven.platform.asked[-1] == ("w1", 0))
        await driven.steps_of("w1", StepFrame(second, state(3), base()))
        assert driven.recorder.tally.gaps == 1
    assert recorded_steps(tmp_path / "a.deck", "w1") == [*first, *second]
    gap = entries(tmp_path / "a.deck", Kind.GAP)[0]
    assert (gap.subject, gap.value) == ("w1", Gap("worker w1 is gone"))


async def test_the_same_engine_is_gone_on_with_and_a_younger_one_read_from_its_beginning(tmp_path: Path) -> None:
    made = steps(1, 9)
    async with recording(tmp_path / "a.deck") as driven:
        await driven.hear(snapshot(workers=(worker("w1"),)))
        await driven.steps_of("w1", StepFrame(made[:5], state(5), base()))
        driven.platform.frames["w1"].put_nowait(None)
        await driven.until(lambda: len(driven.platform.asked) == 2)
        assert driven.platform.asked[1] == ("w1", 6)
        young = steps(1, 2, request="young")
        driven.platform.frames["w1"].put_nowait(StepFrame((), state(2), base(2)))
        await driven.until(lambda: len(driven.platform.asked) == 3)
        assert driven.platform.asked[2] == ("w1", 0)
        await driven.steps_of("w1", StepFrame(young, state(2), base()))
    assert recorded_steps(tmp_path / "a.deck", "w1") == [*made[:5], *young]


async def test_a_base_in_mid_stream_begins_the_tables_anew(tmp_path: Path) -> None:
    """As a watcher gets it that was too slow for some steps."""
    made = steps(1, 6)
    tables = BlockTables(base())
    tables.apply_all(made[:4])
    again = replace(base(4), tables=tables.tables(), used_blocks=4)
    async with recording(tmp_path / "a.deck") as driven:
        await driven.hear(snapshot(workers=(worker("w1"),)))
        await driven.steps_of("w1", StepFrame(made[:2], state(2), base()), StepFrame(made[4:5], state(5), again))
        driven.now[0] += 20.0
        await driven.hear(snapshot(workers=(worker("w1"),)))
        assert driven.platform.asked == [("w1", 0)]
    (stands,) = [entry.value for entry in entries(tmp_path / "a.deck", Kind.TABLES)]
    assert isinstance(stands, StepFrame)
    assert stands.base is not None
    assert [table.blocks for table in stands.base.tables] == [(0, 1, 2, 3, 4)]


async def test_an_engine_without_steps_says_why_once(tmp_path: Path) -> None:
    async with recording(tmp_path / "a.deck") as driven:
        await driven.hear(snapshot(workers=(worker("w1"),)))
        for _ in range(3):
            driven.platform.frames["w1"].put_nowait(StepFrame(trace=TraceState(unavailable="scripted has none")))
            driven.platform.frames["w1"].put_nowait(None)
        await driven.until(lambda: len(driven.platform.asked) == 4)
        assert driven.recorder.tally.gaps == 0
    found = [entry.value for entry in entries(tmp_path / "a.deck", Kind.STEPS, Kind.GAP)]
    assert found == [StepFrame(trace=TraceState(unavailable="scripted has none"))]


async def test_no_steps_when_they_are_not_wanted(tmp_path: Path) -> None:
    async with recording(tmp_path / "a.deck", steps=False) as driven:
        await driven.hear(snapshot(), snapshot())
        assert driven.platform.asked == []


async def test_block_tables_stand_in_every_keyframe_as_following_them_gives_them(tmp_path: Path) -> None:
    made = [*steps(1, 6), *steps(7, 20, request="long")]
    async with recording(tmp_path / "a.deck") as driven:
        await driven.hear(snapshot(workers=(worker("w1"),)))
        await driven.steps_of("w1", StepFrame(tuple(made[:12]), state(12), base()))
        driven.now[0] += 20.0
        await driven.hear(snapshot(workers=(worker("w1"),)))
        await driven.steps_of("w1", StepFrame(tuple(made[12:]), state(26)))
    with RecordingReader.open(tmp_path / "a.deck") as reader:
        found = Recording(reader)
        keyframe = max(index for index, frame in enumerate(reader.frames) if frame.head.keyframe)
        known = [entry for entry in found.entries(keyframe) if isinstance(entry.value, StepFrame)]
    assert [entry.anew for entry in known] == [True, False]
    late, whole = StepLog(), StepLog()
    for entry in known:
        assert isinstance(entry.value, StepFrame)
        late.take(entry.value)
    whole.take(StepFrame(tuple(made), state(26), base()))
    followed = BlockTables(base())
    followed.apply_all(made[:20])
    at_20, same = late.tape().at(20), whole.tape().at(20)
    assert at_20 is not None
    assert same is not None
    assert at_20.tables == same.tables == followed.tables()
    assert (at_20.references, at_20.cached_free, at_20.complete) == (same.references, same.cached_free, True)


async def test_records_are_on_disk_while_recording_goes_on(tmp_path: Path) -> None:
    async with recording(tmp_path / "a.deck") as driven:
        await driven.hear(snapshot(), snapshot(revision=2))
        await driven.until(lambda: len(values(tmp_path / "a.deck", Snapshot)) == 2)


async def test_a_second_recorder_goes_on_in_the_same_file(tmp_path: Path) -> None:
    for revision in (1, 2):
        async with recording(tmp_path / "a.deck") as driven:
            await driven.hear(snapshot(revision=revision))
    assert [value.revision for value in values(tmp_path / "a.deck", Snapshot)] == [1, 2]
    times = [entry.unix for entry in entries(tmp_path / "a.deck")]
    assert times == sorted(times)


async def test_a_full_disk_ends_it_and_leaves_what_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.deck"

    async def fill() -> None:
        async with recording(path) as driven:
            await driven.hear(snapshot())
            await driven.until(lambda: len(values(path, Snapshot)) == 1)

            def full(file: object, data: bytes) -> None:
                driven.writer._file.write(data[: len(data) // 2])
                raise OSError(errno.ENOSPC, "No space left on device")

            monkeypatch.setattr("console.record.writer._write", full)
            driven.platform.snapshots.put_nowait(snapshot(revision=2))
            await asyncio.wait({driven.running}, timeout=PATIENCE_S)

    with pytest.raises(RecordingStopped, match="No space left"):
        await fill()
    assert [value.revision for value in values(path, Snapshot)] == [1]


async def test_a_slow_disk_stops_reading_instead_of_filling_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.record.batches.MOST_BYTES", 20_000)
    stuck = asyncio.Event()
    loop = asyncio.get_running_loop()
    write = RecordingWriter.write

    def slow(self: RecordingWriter, *args: Any, **more: Any) -> None:
        asyncio.run_coroutine_threadsafe(stuck.wait(), loop).result(PATIENCE_S)
        write(self, *args, **more)

    monkeypatch.setattr(RecordingWriter, "write", slow)
    path = tmp_path / "a.deck"
    async with recording(path) as driven:
        for revision in range(1, 60):
            driven.platform.snapshots.put_nowait(snapshot(revision=revision, requests=(request(f"req-{revision}"),)))
        await driven.until(lambda: driven.recorder._batches.full)
        held = driven.recorder.tally.snapshots
        assert 1 <= held < 59
        assert driven.platform.snapshots.qsize() >= 58 - held
        stuck.set()
        await driven.until(lambda: driven.recorder.tally.snapshots == 59)
    assert [value.revision for value in values(path, Snapshot)] == list(range(1, 60))


def recorded_steps(path: Path, worker_id: str) -> list[Any]:
    frames = [e.value for e in entries(path, Kind.STEPS) if e.subject == worker_id and isinstance(e.value, StepFrame)]
    return [step for frame in frames for step in frame.steps]


async def test_decisions_are_recorded_once_and_read_by_request(tmp_path: Path) -> None:
    first, second = decision(1, "req-a"), waited(2, "req-b")
    async with recording(tmp_path / "a.deck") as driven:
        await driven.hear(snapshot())
        driven.platform.decided.put_nowait((first,))
        await driven.until(lambda: driven.recorder.tally.decisions == 1)
        driven.platform.decided.put_nowait(Unavailable("away"))
        driven.platform.decided.put_nowait((first, second))
        await driven.until(lambda: driven.recorder.tally.decisions == 2)
        driven.now[0] += 5
        third = decision(3, "req-a", attempt=2)
        driven.platform.decided.put_nowait((third,))
        await driven.until(lambda: driven.recorder.tally.decisions == 3)
    path = tmp_path / "a.deck"
    assert values(path, DecisionView) == [first, second, third]
    assert [entry.subject for entry in entries(path, Kind.DECISION)] == ["req-a", "req-b", "req-a"]
    assert [entry.subject for entry in entries(path, Kind.GAP)] == ["decisions"]
    with RecordingReader.open(path) as reader:
        found = Recording(reader)
        assert found.decisions(NOW + 100) == [first, second, third]
        assert found.decisions(NOW + 100, request_id="req-a") == [first, third]
        assert found.decisions(NOW + 2, request_id="req-a") == [first]
        assert found.decisions(NOW + 100, most=2) == [second, third]
        assert found.decisions(NOW - 1) == []
        assert summary(found, "a.deck").decisions == 3
