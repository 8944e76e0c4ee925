"""What is in a recording, counted. Reads all of it, so that damage is found."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from console.record.file_header import Session
from console.record.kinds import Kind
from console.record.notes import End, Gap
from console.record.reader import Damage
from console.record.recording import Recording
from control_plane.contracts.decision import DecisionView
from control_plane.contracts.fleet import Event, Snapshot
from control_plane.contracts.step import StepFrame


@dataclass(frozen=True, slots=True)
class NotRecorded:
    """From ``unix`` on nothing was heard of this worker, "" is the whole platform, "events" its events."""

    unix: float
    worker: str
    reason: str


@dataclass(frozen=True, slots=True)
class Summary:
    """Times are unix seconds. ``kinds`` counts records by the name of their kind, ``unread`` those that this version
    cannot read, ``steps`` the engine steps of each worker. ``ended`` is why the last recorder ended, "" if it did not
    say."""

    file: str
    format: str
    bytes: int
    first_unix: float
    last_unix: float
    frames: int
    records: int
    kinds: dict[str, int]
    unread: int
    sessions: tuple[Session, ...]
    ended: str
    workers: tuple[str, ...]
    requests: int
    events: int
    decisions: int
    steps: dict[str, int]
    gaps: tuple[NotRecorded, ...]
    damages: tuple[Damage, ...]

    @property
    def span_s(self) -> float:
        return self.last_unix - self.first_unix


@dataclass(slots=True)
class _Steps:
    """A second recorder hears again what the worker has kept; a new engine counts from 1, but starts later."""

    count: int = 0
    last: int = 0
    started_unix: float = float("-inf")

    def add(self, frame: StepFrame) -> None:
        for step in frame.steps:
            if step.step > self.last or step.started_unix > self.started_unix:
                self.count += 1
                self.last, self.started_unix = step.step, step.started_unix


def summary(recording: Recording, name: str) -> Summary:
    """Of the whole file; ``name`` is how it is called."""
    reader = recording.reader
    kinds = Counter(_name(record.kind) for record in reader.every_record())
    sessions: list[Session] = []
    workers: dict[str, None] = {}
    requests: set[str] = set()
    events: set[tuple[float, int]] = set()
    decisions: set[tuple[str, float, int]] = set()
    steps: dict[str, _Steps] = {}
    gaps: list[NotRecorded] = []
    ended = ""
    for entry in recording.entries():
        match entry.value:
            case Session() as session:
                sessions.append(session)
                ended = ""
            case Snapshot() as snapshot:
                workers.update((worker.id, None) for worker in snapshot.workers)
                requests.update(request.id for request in snapshot.requests)
            case Event() as event:
                events.add((event.at_unix, event.seq))
            case DecisionView() as decision:
                decisions.add((decision.router_id, decision.at_unix, decision.number))
            case StepFrame() as frame:
                steps.setdefault(entry.subject, _Steps()).add(frame)
            case Gap(reason):
                gaps.append(NotRecorded(entry.unix, entry.subject, reason))
            case End(reason):
                ended = reason
    return Summary(
        file=name,
        format=f"{reader.header.major}.{reader.header.minor}",
        bytes=reader.size,
        first_unix=reader.first_unix,
        last_unix=reader.last_unix,
        frames=len(reader.frames),
        records=sum(kinds.values()),
        kinds=dict(kinds),
        unread=recording.unreadable,
        sessions=tuple(sessions),
        ended=ended,
        workers=tuple(workers),
        requests=len(requests),
        events=len(events),
        decisions=len(decisions),
        steps={worker: seen.count for worker, seen in steps.items()},
        gaps=tuple(gaps),
        damages=tuple(reader.damages),
    )


_NAMES = {int(kind): kind.name.lower() for kind in Kind}


def _name(kind: int) -> str:
    return _NAMES.get(kind, f"kind {kind}")
