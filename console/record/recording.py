"""A recording as what was known when: snapshots, steps, events, gaps, from any time on."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from console.record.changes import changed
from console.record.file_header import Session
from console.record.kinds import Kind, Record
from console.record.notes import End, Gap
from console.record.reader import RecordingReader
from control_plane.contracts.decision import DecisionView
from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.fleet import Event, Snapshot
from control_plane.contracts.step import StepFrame
from control_plane.contracts.wire.packed import unpacked

Value = Snapshot | StepFrame | Event | DecisionView | Gap | End | Session

_LATE_S: Final = 2.0
"""Events are this much older when they are heard, at most; older ones are history."""

SNAPSHOTS: Final = (Kind.SNAPSHOT, Kind.CHANGES)


@dataclass(frozen=True, slots=True)
class Entry:
    """Something that became known at ``unix``. ``subject`` is a worker's or request's id, or "" for the platform;
    ``anew``: a snapshot or block tables that stand here so that reading can begin, and repeat what was known."""

    unix: float
    value: Value
    subject: str = ""
    anew: bool = False


@dataclass(frozen=True, slots=True)
class Landmark:
    """A moment worth going to."""

    unix: float
    event: Event | None = None
    gap: Gap | None = None

    @property
    def severity(self) -> str:
        return self.event.severity if self.event is not None else "error"

    @property
    def words(self) -> str:
        if self.event is not None:
            return f"{self.event.subject}: {self.event.message}"
        return f"not recorded from here: {self.gap.reason if self.gap is not None else ''}"


class Recording:
    """``unreadable`` counts records that were whole, and still said nothing to this version."""

    def __init__(self, reader: RecordingReader) -> None:
        self.reader = reader
        self.first_unix = reader.first_unix
        self.last_unix = reader.last_unix
        self.unreadable = 0
        self._decisions: tuple[Record, ...] | None = None
        self._found: tuple[tuple[tuple[float, Event], ...], tuple[Landmark, ...]] | None = None

    def entries(self, first_frame: int = 0, *, only: tuple[Kind, ...] = ()) -> Iterator[Entry]:
        """What became known from a frame on, in order. ``only`` leaves out other kinds; changes need snapshots."""
        snapshot: tuple[Snapshot, float] | None = None
        for index in range(first_frame, len(self.reader.frames)):
            if only and not self.reader.frames[index].head.holds(*only):
                continue
            for record in self.reader.records(index):
                if only and record.kind not in only:
                    continue
                try:
                    entry = _entry(record, snapshot)
                except InvalidRequest:
                    self.unreadable += 1
                    continue
                if entry is None:
                    continue
                if isinstance(entry.value, Snapshot):
                    snapshot = (entry.value, entry.unix)
                yield entry

    def keyframes(self, first: int, end: int) -> Iterator[tuple[Snapshot, float]]:
        """The whole snapshots, and their times, that keyframes from ``first`` up to ``end`` begin with."""
        for index in range(first, end):
            if self.reader.frames[index].head.keyframe:
                for record in self.reader.records(index)[:1]:
                    if record.kind == Kind.SNAPSHOT:
                        with suppress(InvalidRequest):
                            yield unpacked(record.payload, Snapshot), record.unix

    @property
    def events(self) -> tuple[tuple[float, Event], ...]:
        """Every event with the time when it became known, in order; the history that a recorder began with too."""
        return self._happened()[0]

    @property
    def landmarks(self) -> tuple[Landmark, ...]:
        """What happened while it was recorded: events, and gaps of the whole platform, in order of time."""
        return self._happened()[1]

    def landmark_after(self, unix: float) -> Landmark | None:
        marks = self.landmarks
        index = bisect_right(marks, unix, key=lambda mark: mark.unix)
        return marks[index] if index < len(marks) else None

    def landmark_before(self, unix: float) -> Landmark | None:
        marks = self.landmarks
        index = bisect_left(marks, unix, key=lambda mark: mark.unix)
        return marks[index - 1] if index else None

    def _happened(self) -> tuple[tuple[tuple[float, Event], ...], tuple[Landmark, ...]]:
        if self._found is None:
            events: list[tuple[float, Event]] = []
            marks: list[Landmark] = []
            begun = self.first_unix
            for entry in self.entries(only=(Kind.EVENT, Kind.GAP, Kind.SESSION)):
                match entry.value:
                    case Session():
                        begun = entry.unix
                    case Event() as event:
                        events.append((entry.unix, event))
                        if event.at_unix >= begun - _LATE_S:
                            marks.append(Landmark(entry.unix, event=event))
                    case Gap() as gap if not entry.subject:
                        marks.append(Landmark(entry.unix, gap=gap))
            self._found = tuple(events), tuple(marks)
        return self._found

    def decisions(self, until: float, *, request_id: str = "", most: int = 0) -> list[DecisionView]:
        """Those that were recorded up to this time, oldest first and each once; of one request where it is named, and
        at most the last so many."""
        records = self._decision_records()
        records = records[: bisect_right(records, until, key=lambda record: record.unix)]
        if request_id:
            records = tuple(record for record in records if record.subject == request_id)
        found: dict[tuple[str, float, int], DecisionView] = {}
        for record in records[-most:]:
            with suppress(InvalidRequest):
                decision = unpacked(record.payload, DecisionView)
                found[decision.router_id, decision.at_unix, decision.number] = decision
        return list(found.values())

    def _decision_records(self) -> tuple[Record, ...]:
        """As they are written: there may be very many, and few are asked for."""
        if self._decisions is None:
            frames = [n for n, frame in enumerate(self.reader.frames) if frame.head.holds(Kind.DECISION)]
            self._decisions = tuple(
                record for number in frames for record in self.reader.records(number) if record.kind == Kind.DECISION
            )
        return self._decisions

    def snapshot_after(self, unix: float) -> float | None:
        """When the next snapshot came, None behind the last one."""
        for index, frame in enumerate(self.reader.frames):
            if frame.head.last_unix > unix and frame.head.holds(*SNAPSHOTS):
                for record in self.reader.records(index):
                    if record.kind in SNAPSHOTS and record.unix > unix:
                        return record.unix
        return None

    def snapshot_before(self, unix: float) -> float | None:
        for index in range(len(self.reader.frames) - 1, -1, -1):
            head = self.reader.frames[index].head
            if head.first_unix < unix and head.holds(*SNAPSHOTS):
                for record in reversed(self.reader.records(index)):
                    if record.kind in SNAPSHOTS and record.unix < unix:
                        return record.unix
        return None


def _entry(record: Record, before: tuple[Snapshot, float] | None) -> Entry | None:
    """None for a kind that this version does not know. Raises InvalidRequest."""
    at, payload, subject = record.unix, record.payload, record.subject
    match record.kind:
        case Kind.SESSION:
            return Entry(at, Session.from_json(payload))
        case Kind.SNAPSHOT:
            return Entry(at, unpacked(payload, Snapshot))
        case Kind.CHANGES:
            if before is None:
                raise InvalidRequest("these changes belong to a snapshot that cannot be read")
            return Entry(at, changed(*before, payload))
        case Kind.STEPS:
            return Entry(at, unpacked(payload, StepFrame), subject)
        case Kind.TABLES:
            return Entry(at, unpacked(payload, StepFrame), subject, anew=True)
        case Kind.EVENT:
            return Entry(at, unpacked(payload, Event))
        case Kind.DECISION:
            return Entry(at, unpacked(payload, DecisionView), subject)
        case Kind.GAP:
            return Entry(at, Gap.from_json(payload), subject)
        case Kind.END:
            return Entry(at, End.from_json(payload))
        case _:
            return None
