"""Reads a recording: skims its frames when it is opened, and decompresses one when it is asked for.

Damage never ends reading: what is wrong is noted, and reading goes on with the next whole frame.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

from console.home import shown_path
from console.record.file_header import MOST_JSON_BYTES, PREFIX_BYTES, FileHeader, read_file_header
from console.record.frame import HEADER_BYTES, MARK, Damaged, FrameHeader, header, records
from console.record.kinds import Record
from control_plane.contracts.errors import InvalidRequest

_CHUNK: Final = 1 << 20
_FRAMES_KEPT: Final = 16


@dataclass(frozen=True, slots=True)
class Frame:
    """Where a frame begins in the file, and what its header says."""

    at: int
    head: FrameHeader


@dataclass(frozen=True, slots=True)
class Damage:
    """``length`` bytes from ``at`` on cannot be read. ``torn``: they are the file's end, which may still be written."""

    at: int
    length: int
    what: str
    torn: bool = False


class RecordingReader:
    """``frames`` are in the file's order, which is the order of time; ``damages`` grows as frames are read."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file = file
        self.path = path
        self.size = os.fstat(file.fileno()).st_size
        self.header: FileHeader = read_file_header(file.read(PREFIX_BYTES + MOST_JSON_BYTES), shown_path(path))
        self.frames: list[Frame] = []
        self.damages: list[Damage] = []
        self.end = self.header.length
        """Where the last whole frame ends."""
        if not self.header.intact:
            self.damages.append(Damage(0, self.header.length, "the file's header is damaged"))
        self._skim()
        self.records = lru_cache(_FRAMES_KEPT)(self._records)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Raises InvalidRequest where it cannot be read, is no recording, or one of a newer format."""
        try:
            file = path.open("rb")
        except OSError as error:
            raise InvalidRequest(f"cannot read {shown_path(path)}: {error.strerror}", param="file") from None
        try:
            return cls(file, path)
        except OSError as error:
            file.close()
            raise InvalidRequest(f"cannot read {shown_path(path)}: {error.strerror}", param="file") from None
        except BaseException:
            file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    @property
    def first_unix(self) -> float:
        """The first record's time, 0 without records."""
        return self.frames[0].head.first_unix if self.frames else 0.0

    @property
    def last_unix(self) -> float:
        return self.frames[-1].head.last_unix if self.frames else 0.0

    def keyframe_before(self, unix: float) -> int:
        """The number of the last keyframe that begins at or before this time; 0 where there is none."""
        index = bisect_right(self.frames, unix, key=lambda frame: frame.head.first_unix) - 1
        while index > 0 and not self.frames[index].head.keyframe:
            index -= 1
        return max(0, index)

    def every_record(self) -> Iterator[Record]:
        for index in range(len(self.frames)):
            yield from self.records(index)

    def _records(self, index: int) -> tuple[Record, ...]:
        """The records of a frame; none where its data is damaged."""
        found = self.frames[index]
        try:
            return tuple(records(found.head, self._read(found.at + HEADER_BYTES, found.head.data_bytes)))
        except Damaged as damage:
            entry = Damage(found.at, HEADER_BYTES + found.head.data_bytes, str(damage))
            if entry not in self.damages:
                self.damages.append(entry)
            return ()

    def _skim(self) -> None:
        at = self.header.length
        last = float("-inf")
        while at < self.size:
            try:
                head = header(self._read(at, HEADER_BYTES))
                if head.first_unix < last or head.last_unix < head.first_unix:
                    raise Damaged("a frame is out of order")
            except Damaged as damage:
                next_at = self._next_mark(at + 1)
                torn = next_at == self.size and self.size - at < HEADER_BYTES
                what = "the last frame is not whole" if torn else str(damage)
                self._note(Damage(at, next_at - at, what, torn))
                at = next_at
                continue
            end = at + HEADER_BYTES + head.data_bytes
            if end > self.size:
                self.damages.append(Damage(at, self.size - at, "the last frame is not whole", torn=True))
                break
            self.frames.append(Frame(at, head))
            last = head.last_unix
            at = self.end = end

    def _note(self, damage: Damage) -> None:
        """Bytes that look like a frame and are none lie within the same damage."""
        last = self.damages[-1] if self.damages else None
        if last is not None and last.at + last.length == damage.at and not damage.torn:
            self.damages[-1] = replace(last, length=last.length + damage.length)
        else:
            self.damages.append(damage)

    def _next_mark(self, at: int) -> int:
        """Where the next thing that looks like a frame begins; the end of the file where there is none."""
        while at < self.size:
            chunk = self._read(at, _CHUNK)
            found = chunk.find(MARK)
            if found >= 0:
                return at + found
            if at + len(chunk) >= self.size:
                break
            at += len(chunk) - len(MARK) + 1
        return self.size

    def _read(self, at: int, length: int) -> bytes:
        self._file.seek(at)
        return self._file.read(length)
