"""The process that has imported vLLM once and forks each worker from itself.

It is made when the first worker wants it, and again when it has died. Messages are lines of JSON on a socket pair:
``{"op": "spawn", "spec": PATH}`` goes out, ``ready``, ``spawned`` and ``error`` come back. It ends when its socket
closes, whatever happens to this process; the workers that it made live on.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from control_plane.fleet.launcher.base import LaunchFailed
from control_plane.fleet.launcher.log_file import last_lines, open_log
from control_plane.fleet.launcher.process import Process

log = logging.getLogger(__name__)

END_S = 5.0


def _command(fd: int) -> list[str]:
    return [sys.executable, "-m", "workers.preloader", "--fd", str(fd)]


class Preloader:
    """``ready``: its imports are done, and a worker takes it no time."""

    def __init__(self, log_path: Path, command: Callable[[int], list[str]] = _command) -> None:
        self._log_path = log_path
        self._command = command
        self._process: Process | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._waiting: dict[str, asyncio.Future[int]] = {}
        self._starting = asyncio.Lock()
        self.ready = False

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None and not self._process.ended else 0

    async def spawn(self, spec: Path) -> int:
        """Fork a worker for this spec; its pid. Waits while the imports are not done. Raises LaunchFailed."""
        async with self._starting:
            if not self.pid:
                await self._start()
        name = str(spec)
        waiting = self._waiting.setdefault(name, asyncio.get_running_loop().create_future())
        assert self._writer is not None
        self._writer.write(json.dumps({"op": "spawn", "spec": name}).encode() + b"\n")
        try:
            await self._writer.drain()
            return await waiting
        except ConnectionError as error:
            raise LaunchFailed(f"the preloader ended: {error}") from None
        finally:
            self._waiting.pop(name, None)

    async def close(self) -> None:
        """End it, and wait until it has ended."""
        if self._writer is not None:
            self._writer.close()
        if self._process is not None and not self._process.ended:
            with contextlib.suppress(TimeoutError):
                # While it imports it hears nothing.
                async with asyncio.timeout(END_S if self.ready else 0.0):
                    await self._process.wait()
            self._process.send(signal.SIGKILL)
            await self._process.wait()
        if self._reading is not None:
            await self._reading

    async def _start(self) -> None:
        ours, theirs = socket.socketpair()
        try:
            child = self._popen(theirs)
        except OSError as error:
            ours.close()
            raise LaunchFailed(f"the preloader cannot be started: {error}") from None
        self._process, self.ready = Process.of_child(child), False
        reader, self._writer = await asyncio.open_connection(sock=ours)
        self._reading = asyncio.create_task(self._read(reader, self._writer, self._process), name="preloader")
        log.info("preloader started", extra={"preloader_pid": child.pid})

    def _popen(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        with theirs, open_log(self._log_path) as output:
            return subprocess.Popen(
                self._command(theirs.fileno()),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, process: Process) -> None:
        try:
            with contextlib.suppress(ConnectionError):
                while line := await reader.readline():
                    self._take(json.loads(line))
        except Exception:
            log.exception("the preloader cannot be understood, it is ended", extra={"preloader_pid": process.pid})
            process.send(signal.SIGKILL)
        writer.close()
        await process.wait()
        self.ready = False
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(LaunchFailed(f"the preloader ended ({process.exit}){self._last_words()}"))
        log.info("preloader ended", extra={"preloader_pid": process.pid, "exit": process.exit})

    def _take(self, message: dict[str, Any]) -> None:
        if message.get("op") == "ready":
            self.ready = True
            log.info("preloader ready", extra={"import_s": message.get("import_s")})
            return
        waiting = self._waiting.get(str(message.get("spec", "")))
        if waiting is None or waiting.done():
            log.warning("the preloader said something unexpected", extra={"op": message.get("op")})
        elif message.get("op") == "spawned":
            waiting.set_result(int(message["pid"]))
        else:
            why = message.get("message") or message.get("error") or "no reason given"
            waiting.set_exception(LaunchFailed(f"the preloader could not fork: {why}"))

    def _last_words(self) -> str:
        lines = last_lines(self._log_path, 1).decode(errors="replace").strip()
        return f": {lines[-300:]}" if lines else ""
