"""Recordings for tests: records at random, and files made of them."""

from __future__ import annotations

from pathlib import Path

from hypothesis import strategies as st

from console.record.file_header import Session, file_header
from console.record.frame import frame
from console.record.kinds import Record
from console.record.writer import RecordingWriter

SESSION = Session("0.1.0", "cp-1", "~/.inferdeck", 1_700_000_000.0, ("snapshots", "events"))

texts = st.text(max_size=10)
payloads = st.one_of(st.binary(max_size=60), st.integers(1, 40).map(lambda n: b"all the same " * n))
bare = st.builds(Record, kind=st.integers(0, 0xFFFF), unix=st.just(0.0), payload=payloads, subject=texts)
gaps = st.floats(0.0, 1e4)


@st.composite
def batches(draw: st.DrawFn) -> list[list[Record]]:
    """Frames to be: at least one, each with at least one record, in order of time."""
    unix, out = 1_700_000_000.0, []
    for batch in draw(st.lists(st.lists(st.tuples(bare, gaps), min_size=1, max_size=4), min_size=1, max_size=4)):
        made = []
        for record, gap in batch:
            unix += gap
            made.append(Record(record.kind, unix, record.payload, record.subject))
        out.append(made)
    return out


def file_of(frames: list[list[Record]]) -> bytes:
    return file_header(SESSION) + b"".join(frame(records) for records in frames)


def write(path: Path, frames: list[list[Record]], *, force: bool = False) -> None:
    with RecordingWriter.open(path, SESSION, force=force) as writer:
        for records in frames:
            writer.write(records)


def flat(frames: list[list[Record]]) -> list[Record]:
    return [record for records in frames for record in records]
