"""Reading logs for people: the last lines, then the new ones, over rotations."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO, Final

from control_plane.contracts.errors import NotFound
from control_plane.fleet.launcher.log_file import last_lines, older, rotate

POLL_S: Final = 0.1
CHUNK: Final = 65_536
DEFAULT_LINES: Final = 200
ROTATE_S: Final = 5.0

log = logging.getLogger(__name__)


class Logs:
    """The files of one folder, ``NAME.log`` each. A worker's stays when the worker is gone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def names(self) -> list[str]:
        """What can be asked for, as people say it: control-plane, a gateway's, router's or worker's id, preloader."""
        prefixes = ("worker-", "gateway-", "router-")
        stems = [path.stem for path in self._folder.glob("*.log")]
        return sorted(next((s.removeprefix(p) for p in prefixes if s.startswith(p)), s) for s in stems)

    def find(self, target: str) -> Path:
        """The log of a worker, gateway ("gateway" is the first one), router or the control plane. Raises NotFound."""
        there = {path.stem: path for path in sorted(self._folder.glob("*.log"))}
        name = target.replace("/", "-", 1) if target.startswith(("worker/", "gateway/", "router/")) else target
        for candidate in (f"worker-{name}", f"gateway-{name}", f"router-{name}", name):
            if candidate in there:
                return there[candidate]
        if name == "gateway":
            for stem, path in there.items():
                if stem.startswith("gateway-"):
                    return path
        raise NotFound(
            f"there is no log of {target!r}; there are: {', '.join(self.names()) or 'none'}",
            param="target",
            hint="inferdeck logs control-plane",
        )

    async def read(self, path: Path, lines: int, *, follow: bool) -> AsyncIterator[bytes]:
        """The last lines, and with ``follow`` what is written from then on, without end."""
        reader = _Reader(path)
        try:
            data = await asyncio.to_thread(reader.tail, lines or DEFAULT_LINES)
            while True:
                for start in range(0, len(data), CHUNK):
                    yield data[start : start + CHUNK]
                if not follow:
                    return
                data = await asyncio.to_thread(reader.news)
                if not data:
                    await asyncio.sleep(POLL_S)
        finally:
            reader.close()

    async def keep_short(self) -> None:
        """Rotate whatever gets too long, without end. One that cannot be rotated is tried again and again."""
        while True:
            for path in self._folder.glob("*.log"):
                try:
                    await asyncio.to_thread(rotate, path)
                except OSError as error:
                    log.warning("a log could not be rotated", extra={"path": str(path), "cause": str(error)})
            await asyncio.sleep(ROTATE_S)


class _Reader:
    """One log over its rotations: one that was cut has its rest in the older generation, at the same place."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._offset = 0

    def tail(self, lines: int) -> bytes:
        self._file = self._path.open("rb")
        self._offset = self._file.seek(0, os.SEEK_END)
        return last_lines(self._path, lines)

    def news(self) -> bytes:
        assert self._file is not None
        size = os.fstat(self._file.fileno()).st_size
        rest = b""
        if size < self._offset:
            rest = self._cut_off()
            self._offset = 0
        self._file.seek(self._offset)
        data = self._file.read(CHUNK)
        self._offset += len(data)
        return rest + data

    def _cut_off(self) -> bytes:
        try:
            with older(self._path).open("rb") as file:
                file.seek(self._offset)
                return file.read()
        except FileNotFoundError:
            return b""

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
