"""Writes a recording: frames one after the other, each of which is whole on disk or not there."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from console.home import shown_path
from console.record import frame
from console.record.file_header import Session, file_header
from console.record.kinds import Record
from console.record.reader import RecordingReader
from control_plane.contracts.errors import Conflict, InferDeckError, InvalidRequest


class RecordingStopped(InferDeckError):
    """The file takes no more; what is in it can be read."""


class RecordingWriter:
    """One writer per file, in any thread but one at a time. After an error nothing more is written."""

    def __init__(self, file: BinaryIO, name: str, end: int, last_unix: float) -> None:
        self._file = file
        self._name = name
        self.bytes = end
        """Of the file, up to the end of the last whole frame."""
        self.last_unix = last_unix
        """The time of the last record that was in the file when it was opened."""
        self.cut_bytes = 0
        """What an earlier recorder had begun to write at the end, and this one took off."""

    @classmethod
    def open(cls, path: Path, session: Session, *, force: bool = False) -> Self:
        """A new file, or an existing recording to go on with; ``force`` begins anew whatever the file is.

        Raises InvalidRequest where the file is something else or of a newer format, Conflict where somebody records
        into it, RecordingStopped where it cannot be written.
        """
        shown = shown_path(path)
        try:
            file = path.open("r+b" if path.exists() else "x+b", buffering=0)
        except OSError as error:
            raise _cannot(shown, error) from None
        try:
            return cls._begin(file, path, session, force=force)
        except BaseException:
            file.close()
            raise

    @classmethod
    def _begin(cls, file: BinaryIO, path: Path, session: Session, *, force: bool) -> Self:
        shown = shown_path(path)
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Conflict(f"{shown} is being recorded into by another process", param="file") from None
            size = os.fstat(file.fileno()).st_size
            if size and not force:
                with RecordingReader.open(path) as reader:
                    writer = cls(file, shown, reader.end, reader.last_unix)
                writer.cut_bytes = size - writer.bytes
                os.ftruncate(file.fileno(), writer.bytes)
                file.seek(writer.bytes)
                return writer
            os.ftruncate(file.fileno(), 0)
            file.seek(0)
            head = file_header(session)
            _write(file, head)
        except InvalidRequest as error:
            raise InvalidRequest(error.message, param=error.param, hint="--force writes over it") from None
        except OSError as error:
            raise _cannot(shown, error) from None
        return cls(file, shown, len(head), 0.0)

    def write(self, records: Sequence[Record], *, keyframe: bool = False) -> None:
        """One frame. Raises RecordingStopped when the disk takes no more; the file then ends with the frame before."""
        if not records:
            return
        data = frame.frame(records, keyframe=keyframe)
        try:
            _write(self._file, data)
            if keyframe:
                os.fsync(self._file.fileno())
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._file.fileno(), self.bytes)
            raise _cannot(self._name, error) from None
        self.bytes += len(data)

    def close(self) -> None:
        with suppress(OSError):
            os.fsync(self._file.fileno())
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def _write(file: BinaryIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def _cannot(name: str, error: OSError) -> RecordingStopped:
    return RecordingStopped(f"{name}: {error.strerror or error}", param="file")
