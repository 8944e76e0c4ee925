"""Folders that are built once and then trusted: built aside, put in place in one rename, and described by a manifest.

One process builds at a time; the others wait for it and see its progress. A build that was killed leaves only a folder
that the next one sweeps, because whoever holds the lock is the only builder alive.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

Progress = Callable[[float, str], None]

MANIFEST = "manifest.json"
_POLL_S = 0.1


def verified(folder: Path, *, full: bool = False) -> bool:
    """Whether the folder holds exactly what its manifest says.

    A file whose size and time are those of the manifest is taken as it is; with ``full``, or if only the time differs
    (a copied cache), its content is hashed.
    """
    try:
        files = json.loads((folder / MANIFEST).read_text())["files"]
        for name, expected in files.items():
            path = folder / name
            stat = path.stat()
            if stat.st_size != expected["size"]:
                return False
            if (full or stat.st_mtime_ns != expected["mtime_ns"]) and sha256_of(path) != expected["sha256"]:
                return False
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False
    return bool(files)


def build_once(
    folder: Path, build: Callable[[Path, Progress], None], progress: Progress, *, source_sha256: str, full: bool = False
) -> Path:
    """``folder``, built if it is not there or not what its manifest says.

    ``build`` gets an empty folder to fill. Raises whatever ``build`` raises, and OSError.
    """
    if verified(folder, full=full):
        _sweep_if_alone(folder)
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _only_builder(folder, progress) as shared:
        _sweep(folder)
        if verified(folder, full=full):
            return folder
        aside = folder.with_name(f".{folder.name}.building-{os.getpid()}")
        aside.mkdir()
        try:
            build(aside, shared)
            _write_manifest(aside, source_sha256)
            if folder.exists():
                folder.rename(folder.with_name(f".{folder.name}.broken-{os.getpid()}"))
            aside.rename(folder)
        finally:
            _sweep(folder)
    return folder


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_manifest(folder: Path, source_sha256: str) -> None:
    files = {}
    for path in sorted(folder.iterdir()):
        stat = path.stat()
        files[path.name] = {"sha256": sha256_of(path), "size": stat.st_size, "mtime_ns": stat.st_mtime_ns}
    (folder / MANIFEST).write_text(json.dumps({"source_sha256": source_sha256, "files": files}, indent=1) + "\n")


@contextlib.contextmanager
def _only_builder(folder: Path, progress: Progress) -> Iterator[Progress]:
    """Hold the folder's lock; yields a progress callback that those who wait can follow."""
    with _open_lock(folder) as lock:
        while not _try_lock(lock):
            done, words = _read_progress(lock)
            progress(done, f"another process is {words}" if words else "waiting for another process")
            time.sleep(_POLL_S)

        def shared(done: float, words: str) -> None:
            os.ftruncate(lock, 0)
            os.pwrite(lock, json.dumps([round(done, 4), words]).encode(), 0)
            progress(done, words)

        try:
            yield shared
        finally:
            os.ftruncate(lock, 0)


@contextlib.contextmanager
def _open_lock(folder: Path) -> Iterator[int]:
    # The lock file stays: removing it would let two processes hold locks on two files of one name.
    lock = os.open(folder.with_name(f".{folder.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield lock
    finally:
        os.close(lock)


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read_progress(lock: int) -> tuple[float, str]:
    try:
        done, words = json.loads(os.pread(lock, 4096, 0))
        return float(done), str(words)
    except ValueError:
        return 0.0, ""


def _leftovers(folder: Path) -> list[Path]:
    return [*folder.parent.glob(f".{folder.name}.building-*"), *folder.parent.glob(f".{folder.name}.broken-*")]


def _sweep(folder: Path) -> None:
    for leftover in _leftovers(folder):
        shutil.rmtree(leftover, ignore_errors=True)


def _sweep_if_alone(folder: Path) -> None:
    if not _leftovers(folder):
        return
    with contextlib.suppress(OSError), _open_lock(folder) as lock:
        if _try_lock(lock):
            _sweep(folder)
