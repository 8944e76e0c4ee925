"""The file: what is written is read, whatever happens to its bytes."""

from __future__ import annotations

import math
import os
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.record.file_header import MAGIC, MAJOR, file_header
from console.record.frame import HEADER_BYTES, KEYFRAME, frame, header
from console.record.kinds import Record
from console.record.reader import RecordingReader
from console.record.writer import RecordingStopped, RecordingWriter
from control_plane.contracts.errors import Conflict, InvalidRequest
from tests.unit.console.record.files import SESSION, batches, file_of, flat, write

HEADER = len(file_header(SESSION))
EXAMPLES = settings(max_examples=40, deadline=None)


@contextmanager
def reading(data: bytes) -> Iterator[RecordingReader]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "some.deck"
        path.write_bytes(data)
        with RecordingReader.open(path) as reader:
            yield reader


def read(data: bytes) -> tuple[list[Record], list[str]]:
    with reading(data) as reader:
        return list(reader.every_record()), [damage.what for damage in reader.damages]


@EXAMPLES
@given(batches())
def test_what_was_written_is_read(frames: list[list[Record]]) -> None:
    with reading(file_of(frames)) as reader:
        assert list(reader.every_record()) == flat(frames)
        assert reader.damages == []
        assert reader.header.session == SESSION
        assert [entry.head.records for entry in reader.frames] == [len(records) for records in frames]
        assert (reader.first_unix, reader.last_unix) == (frames[0][0].unix, frames[-1][-1].unix)
        for entry, records in zip(reader.frames, frames, strict=True):
            assert all(entry.head.holds(record.kind) for record in records)


@EXAMPLES
@given(batches(), st.data())
def test_a_cut_leaves_the_frames_before_it(frames: list[list[Record]], data: st.DataObject) -> None:
    whole = file_of(frames)
    cut = data.draw(st.integers(HEADER, len(whole)))
    ends = [HEADER]
    for records in frames:
        ends.append(ends[-1] + len(frame(records)))
    kept = max(index for index, end in enumerate(ends) if end <= cut)
    with reading(whole[:cut]) as reader:
        assert list(reader.every_record()) == flat(frames[:kept])
        assert [damage.torn for damage in reader.damages] == ([] if cut in ends else [True])
        assert sum(damage.length for damage in reader.damages) == cut - ends[kept]


@EXAMPLES
@given(batches(), st.data())
def test_a_flipped_bit_is_noticed_and_costs_no_other_frame(frames: list[list[Record]], data: st.DataObject) -> None:
    whole = bytearray(file_of(frames))
    at = data.draw(st.integers(len(MAGIC), len(whole) - 1))
    whole[at] ^= 1 << data.draw(st.integers(0, 7))
    records, damages = read(bytes(whole))
    assert damages
    begin = HEADER
    lost = None
    for index, batch in enumerate(frames):
        end = begin + len(frame(batch))
        if begin <= at < end:
            lost = index
        begin = end
    assert records == flat([batch for index, batch in enumerate(frames) if index != lost])


@EXAMPLES
@given(batches(), st.integers(0, 7), st.integers(0, len(MAGIC) - 1))
def test_another_magic_is_another_kind_of_file(frames: list[list[Record]], bit: int, at: int) -> None:
    data = bytearray(file_of(frames))
    data[at] ^= 1 << bit
    with pytest.raises(InvalidRequest, match=r"some\.deck is not a recording"):
        read(bytes(data))


@EXAMPLES
@given(batches(), st.binary(min_size=1, max_size=200), st.data())
def test_what_lies_between_frames_is_stepped_over(
    frames: list[list[Record]], rubbish: bytes, data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(frames) - 1))
    head = file_header(SESSION)
    parts = [frame(records) for records in frames]
    records, damages = read(head + b"".join(parts[:cut]) + rubbish + b"".join(parts[cut:]))
    assert records == flat(frames)
    assert len(damages) == 1


@EXAMPLES
@given(batches(), st.integers(0, 5), st.integers(0, 30))
def test_going_on_equals_writing_at_once(frames: list[list[Record]], first: int, torn: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        once, twice = Path(folder) / "once.deck", Path(folder) / "twice.deck"
        write(once, frames)
        write(twice, frames[:first])
        if torn and first < len(frames):  # a recorder died here
            with twice.open("ab") as file:
                file.write(frame(frames[first])[:torn])
        write(twice, frames[first:])
        assert once.read_bytes() == twice.read_bytes() == file_of(frames)


def test_a_torn_end_is_cut_off_and_told(tmp_path: Path) -> None:
    path = tmp_path / "a.deck"
    records = [Record(5, 10.0, b"one")]
    write(path, [records])
    with path.open("ab") as file:
        file.write(frame(records)[:-1])
    with RecordingWriter.open(path, SESSION) as writer:
        assert writer.cut_bytes == len(frame(records)) - 1
        assert writer.last_unix == 10.0
    with RecordingReader.open(path) as reader:
        assert reader.damages == []


def test_a_frame_names_its_kinds_and_whether_reading_can_begin_there() -> None:
    head = header(frame([Record(2, 1.0), Record(7, 2.0), Record(40, 2.0)], keyframe=True))
    assert (head.kinds, head.flags, head.keyframe) == (1 << 2 | 1 << 7, KEYFRAME, True)
    assert head.holds(2)
    assert head.holds(1, 7)
    assert not head.holds(1, 3)
    assert head.holds(40)


def test_a_newer_format_is_refused_with_a_way_out(tmp_path: Path) -> None:
    path = tmp_path / "a.deck"
    body = b'{"something": "new"}'
    head = struct.pack("<8sHHI", MAGIC, MAJOR + 1, 3, len(body))
    path.write_bytes(head + struct.pack("<I", zlib.crc32(head + body)) + body)
    with pytest.raises(InvalidRequest, match=rf"has format {MAJOR + 1}\.3; this InferDeck reads up to {MAJOR}") as told:
        RecordingReader.open(path)
    assert "newer InferDeck" in told.value.hint
    with pytest.raises(InvalidRequest, match=r"has format"):
        RecordingWriter.open(path, SESSION)


@pytest.mark.parametrize("content", [b"hello, this is a text\n", b"PK\x03\x04", b"\x89PNG\r\n\x1a\n" * 9])
def test_other_files_are_refused_unless_forced(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    with pytest.raises(InvalidRequest, match="not a recording") as told:
        RecordingWriter.open(path, SESSION)
    assert "--force" in told.value.hint
    assert path.read_bytes() == content
    write(path, [[Record(5, 1.0, b"x")]], force=True)
    with RecordingReader.open(path) as reader:
        assert list(reader.every_record()) == [Record(5, 1.0, b"x")]


@pytest.mark.parametrize("length", range(len(MAGIC), HEADER, 7))
def test_a_file_that_ends_in_its_header_holds_nothing(tmp_path: Path, length: int) -> None:
    path = tmp_path / "a.deck"
    path.write_bytes(file_header(SESSION)[:length])
    with pytest.raises(InvalidRequest, match="nothing was recorded"):
        RecordingReader.open(path)


def test_an_empty_file_is_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "a.deck"
    path.touch()
    with pytest.raises(InvalidRequest, match="is not a recording"):
        RecordingReader.open(path)
    write(path, [[Record(5, 1.0)]])
    with RecordingReader.open(path) as reader:
        assert len(reader.frames) == 1


@pytest.mark.parametrize("name", ["missing/a.deck", "."])
def test_what_cannot_be_opened_is_told(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidRequest, match="cannot read"):
        RecordingReader.open(tmp_path / name)
    with pytest.raises(RecordingStopped, match=r"No such file|Is a directory"):
        RecordingWriter.open(tmp_path / name, SESSION)


def test_one_file_has_one_writer(tmp_path: Path) -> None:
    path = tmp_path / "a.deck"
    with RecordingWriter.open(path, SESSION), pytest.raises(Conflict, match="another process"):
        RecordingWriter.open(path, SESSION)
    RecordingWriter.open(path, SESSION).close()


def test_an_impossible_size_allocates_nothing() -> None:
    data = bytearray(frame([Record(5, 1.0, b"x" * 100)]))
    data[8:12] = struct.pack("<I", 0xFFFFFFFF)
    data[HEADER_BYTES - 4 : HEADER_BYTES] = struct.pack("<I", zlib.crc32(data[: HEADER_BYTES - 4]))
    assert read(file_header(SESSION) + bytes(data))[1] == ["a frame's header says what cannot be"]


def test_a_frame_that_holds_more_than_it_says_is_damaged() -> None:
    data = bytearray(frame([Record(5, 1.0, b"x" * 5000)]))
    data[8:12] = struct.pack("<I", 100)
    data[HEADER_BYTES - 4 : HEADER_BYTES] = struct.pack("<I", zlib.crc32(data[: HEADER_BYTES - 4]))
    records, damages = read(file_header(SESSION) + bytes(data))
    assert records == []
    assert len(damages) == 1


@pytest.mark.parametrize("unix", [math.nan, math.inf, 3.5, 0.5, -1.0, 1e300])
def test_a_record_that_is_not_of_its_frames_time_is_damage(unix: float) -> None:
    made = frame([Record(5, 1.0, b"one"), Record(5, unix, b"odd"), Record(5, 3.0, b"three")])
    assert read(file_header(SESSION) + made) == ([], ["a record is out of order"])


@pytest.mark.parametrize("unix", [math.nan, math.inf, -1.0, 3e11, 1e300])
def test_a_time_that_no_clock_shows_is_damage(unix: float) -> None:
    assert read(file_header(SESSION) + frame([Record(5, unix)])) == ([], ["a frame's header says what cannot be"])


FULL = """
import resource, signal, sys
from pathlib import Path
from console.record.kinds import Record
from console.record.writer import RecordingWriter, RecordingStopped
from tests.unit.console.record.files import SESSION
import os
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
with RecordingWriter.open(Path(sys.argv[1]), SESSION) as writer:
    try:
        for number in range(1000):
            writer.write([Record(5, float(number), os.urandom(3000))])
    except RecordingStopped as stopped:
        print(number, stopped.message)
"""


def test_a_disk_that_is_full_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "a.deck"
    ran = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=True, cwd=os.getcwd()
    )
    number, words = ran.stdout.split(" ", 1)
    assert "File too large" in words
    with RecordingReader.open(path) as reader:
        assert [record.unix for record in reader.every_record()] == [float(n) for n in range(int(number))]
        assert int(number) == 6
        assert reader.damages == []
