"""One frame of a recording: a batch of records, compressed, that can be read without any other frame. Pure.

The header (48 bytes, little endian) says how long the frame is, when its records were and which kinds there are, so
that a reader can skim a file without decompressing it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import zstandard

from console.record.kinds import Record

MARK: Final = b"\xf7DFr"
HEADER_BYTES: Final = 48
LEVEL: Final = 3
MOST_RAW_BYTES: Final = 256 << 20
"""A frame that says it is larger is damaged: nobody writes one, and nobody should allocate one."""

LATEST_UNIX: Final = 253_402_300_799.0
"""The end of the year 9999: no clock shows a later time."""

KEYFRAME: Final = 1
"""Flag: the frame begins with all that is needed to read on from here."""

_HEADER: Final = struct.Struct("<4sIIIIIddII")
_RECORD: Final = struct.Struct("<HHId")


class Damaged(Exception):
    """What is wrong with these bytes."""


@dataclass(frozen=True, slots=True)
class FrameHeader:
    """``kinds`` has bit k set where the frame holds a record of kind k < 32; times are unix seconds."""

    data_bytes: int
    raw_bytes: int
    records: int
    kinds: int
    flags: int
    first_unix: float
    last_unix: float
    crc: int

    @property
    def keyframe(self) -> bool:
        return bool(self.flags & KEYFRAME)

    def holds(self, *kinds: int) -> bool:
        """Whether one of these kinds may be in it."""
        return any(kind >= 32 or self.kinds >> kind & 1 for kind in kinds)


def frame(records: Sequence[Record], *, keyframe: bool = False) -> bytes:
    """Header and data of one frame. ``records`` are in order of time, at least one."""
    parts: list[bytes] = []
    kinds = 0
    for record in records:
        subject = record.subject.encode("utf-8", "surrogatepass")
        parts += (_RECORD.pack(record.kind, len(subject), len(record.payload), record.unix), subject, record.payload)
        kinds |= 1 << record.kind if record.kind < 32 else 0
    raw = b"".join(parts)
    data = zstandard.ZstdCompressor(level=LEVEL).compress(raw)
    flags = KEYFRAME if keyframe else 0
    fields = (MARK, len(data), len(raw), len(records), kinds, flags, records[0].unix, records[-1].unix)
    head = _HEADER.pack(*fields, zlib.crc32(data), 0)[:-4]
    return head + struct.pack("<I", zlib.crc32(head)) + data


def header(data: bytes) -> FrameHeader:
    """The header at the beginning of ``data``. Raises Damaged."""
    if len(data) < HEADER_BYTES:
        raise Damaged("a frame's header is cut short")
    mark, *fields, crc = _HEADER.unpack_from(data)
    if mark != MARK or zlib.crc32(data[: HEADER_BYTES - 4]) != crc:
        raise Damaged("a frame's header is damaged")
    made = FrameHeader(*fields)
    if made.raw_bytes > MOST_RAW_BYTES or not 0 <= made.first_unix <= made.last_unix <= LATEST_UNIX:
        raise Damaged("a frame's header says what cannot be")
    return made


def records(head: FrameHeader, data: bytes) -> Iterator[Record]:
    """The records of a frame whose ``data`` follows its header. Raises Damaged before the first one, or not at all."""
    if len(data) != head.data_bytes or zlib.crc32(data) != head.crc:
        raise Damaged("a frame's data is damaged")
    try:
        raw = zstandard.ZstdDecompressor().decompress(data, max_output_size=head.raw_bytes)
    except zstandard.ZstdError as error:
        raise Damaged(f"a frame's data cannot be decompressed: {error}") from None
    if len(raw) != head.raw_bytes:
        raise Damaged("a frame's data is shorter than it says")
    return iter(_split(raw, head))


def _split(raw: bytes, head: FrameHeader) -> list[Record]:
    found: list[Record] = []
    at, last = 0, head.first_unix
    try:
        while at < len(raw):
            kind, subject_bytes, payload_bytes, unix = _RECORD.unpack_from(raw, at)
            at += _RECORD.size
            end = at + subject_bytes + payload_bytes
            if end > len(raw):
                raise Damaged("a record is longer than its frame")
            if not last <= unix <= head.last_unix:
                raise Damaged("a record is out of order")
            last = unix
            subject = raw[at : at + subject_bytes].decode("utf-8", "surrogatepass")
            found.append(Record(kind, unix, raw[at + subject_bytes : end], subject))
            at = end
    except (struct.error, UnicodeDecodeError) as error:
        raise Damaged(f"a frame's records cannot be told apart: {error}") from None
    return found
