"""Log files that several processes write and nobody has to close: opened to append, cut when they get too long."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import BinaryIO, Final

LOG_BYTES: Final = 16 * 1024 * 1024
"""Size above which a log is rotated. One older generation stays beside it, as ``NAME.1``."""


def open_log(path: Path) -> BinaryIO:
    """The log, ready to be a process' stdout and stderr; readable by its owner only."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600), "ab", buffering=0)


def older(path: Path) -> Path:
    """Where the generation before the current one is."""
    return path.with_name(f"{path.name}.1")


def rotate(path: Path, limit: int = LOG_BYTES) -> bool:
    """Move the content of a log that is over the limit to its older generation; whether that was done.

    The writers keep the file that they have open, so the content is copied and the file cut to nothing, where they go
    on because they append. A line written between the two is lost; nothing else is. Only one at a time may rotate a
    log. Raises OSError, as on a full disk: the log is as it was then, and nothing lies beside it.
    """
    try:
        if path.stat().st_size <= limit:
            return False
    except FileNotFoundError:
        return False
    copy = path.with_name(f"{path.name}.rotating")
    try:
        shutil.copyfile(path, copy)
        copy.chmod(0o600)
        os.replace(copy, older(path))
    finally:
        copy.unlink(missing_ok=True)
    os.truncate(path, 0)
    return True


def last_lines(path: Path, count: int, most_bytes: int = 4 * 1024 * 1024) -> bytes:
    """The last lines of a log, with those of the older generation where the current one has too few."""
    data = _tail(path, most_bytes)
    if data.count(b"\n") < count:
        data = _tail(older(path), most_bytes - len(data)) + data
    lines = data.splitlines(keepends=True)
    return b"".join(lines[-count:]) if count else b""


def _tail(path: Path, most_bytes: int) -> bytes:
    if most_bytes <= 0:
        return b""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - most_bytes))
            return file.read()
    except FileNotFoundError:
        return b""
