"""Starting a platform: the control plane as a child process, and the wait until everything serves."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from console.client import OperatorClient
from console.home import Home, State, Unreachable
from console.log_lines import parsed, readable, tail_of
from console.processes import ended
from console.readiness import Readiness, readiness
from control_plane.contracts.errors import InferDeckError, InvalidRequest, RequestTimeout
from control_plane.contracts.fleet import Snapshot, WorkerPhase
from control_plane.contracts.worker_spec import start_ticks

Progress = Callable[[Readiness], None]

EXIT_SETTINGS = 2
TAIL_LINES = 15
_ROOM_BYTES = 64 * 1024
_POLL_S = 0.05
_SILENT_S = 2.0
"""A control plane that somebody else started and that lives is not waited for when it has said nothing for so long."""


class StartFailed(InferDeckError):
    """The platform will not come up. ``log`` is the end of the log that tells why, readable."""

    def __init__(self, message: str, *, log: list[str], hint: str = "", partial: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.log = log
        self.partial = partial


class WrongSettings(InvalidRequest):
    """The control plane refused its settings; its own words."""


@dataclass(slots=True)
class ControlPlane:
    """A control plane that this process started. Close ``lifeline`` (or die) and it shuts everything down.

    ``took_over``: it was seen to run the home. Until then nothing in the home is its doing.
    """

    home: Home
    process: subprocess.Popen[bytes]
    log_starts: dict[str, int]
    lifeline: int | None
    took_over: bool = False

    @classmethod
    def start(
        cls, home: Home, *, config: Path | None = None, detached: bool, arguments: Sequence[str] = ()
    ) -> ControlPlane:
        """``arguments`` are further ones of ``python -m control_plane serve``.

        Raises StartFailed when the home cannot be used.
        """
        log = home.log_path
        command = [sys.executable, "-m", "control_plane", "serve", "--home", str(home.path)]
        if config is not None:
            command += ["--config", str(config.absolute())]
        command += arguments
        read_end, lifeline = (None, None) if detached else os.pipe()
        try:
            home.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            log.parent.mkdir(exist_ok=True)
            starts = {path.name: path.stat().st_size for path in log.parent.glob("*.log")}
            with open(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as output:
                process = subprocess.Popen(
                    [*command, "--parent-fd", str(read_end)] if read_end is not None else command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                    pass_fds=() if read_end is None else (read_end,),
                    # Modules come from the installation, never from the folder that the user happens to be in.
                    env={**os.environ, "PYTHONSAFEPATH": "1"},
                )
        except OSError as error:
            if lifeline is not None:
                os.close(lifeline)
            raise StartFailed(f"cannot use {home.shown}: {error.strerror or error}", log=[]) from None
        finally:
            if read_end is not None:
                os.close(read_end)
        return cls(home, process, starts, lifeline)

    def let_go(self) -> None:
        """Cut the lifeline: a control plane that still runs ends, and everything with it."""
        if self.lifeline is not None:
            os.close(self.lifeline)
            self.lifeline = None

    async def ended(self) -> int:
        """Its exit code, once it has ended."""
        while (code := self.process.poll()) is None:
            await ended(self.process.pid, start_ticks(self.process.pid))
        return code

    def log_tail(self, name: str, lines: int) -> list[str]:
        """The last lines of a log, of those written since the start."""
        return tail_of(self.home.folder.logs / name, lines, self.log_starts.get(name, 0))

    def failure(self, code: int) -> InferDeckError:
        """Why it ended, out of what it wrote."""
        raw = self.log_tail(self.home.log_path.name, 200)
        told = "\n".join(line.removeprefix("error: ") for line in raw if line.startswith("error: "))
        hint = next((line.removeprefix("hint: ") for line in raw if line.startswith("hint: ")), "")
        if told:
            return WrongSettings(told, hint=hint) if code == EXIT_SETTINGS else StartFailed(told, log=[], hint=hint)
        how = f"ended by signal {-code}" if code < 0 else f"ended with code {code}"
        errors = [record for line in raw if (record := parsed(line)) and record.get("level") in ("error", "critical")]
        why = f": {errors[-1].get('cause') or errors[-1]['message']}" if errors else ""
        if not why and self._disk_is_full():
            # It could not write down why.
            full = f"there is no room left on the disk of {self.home.shown}"
            return StartFailed(f"the control plane {how}: {full}", log=[], hint=f"df -h {self.home.shown}")
        log = [text for line in raw[-TAIL_LINES:] for text in readable(line)]
        return StartFailed(f"the control plane {how}{why}", log=log)

    def _disk_is_full(self) -> bool:
        try:
            return shutil.disk_usage(self.home.path).free < _ROOM_BYTES
        except OSError:
            return False


async def wait_until_ready(
    home: Home, *, timeout_s: float = 0.0, progress: Progress = lambda _: None, own: ControlPlane | None = None
) -> tuple[State, Snapshot]:
    """Return when every pool has its workers and a gateway serves. With ``own``, its end is the wait's end.

    Raises StartFailed or WrongSettings when that will not happen, RequestTimeout after ``timeout_s`` (0: no end), and
    without ``own`` Unreachable where it lives and does not answer. When some workers of the pools do serve, StartFailed
    has ``partial`` set.
    """
    latest: Readiness | None = None

    def heard(now: Readiness) -> None:
        nonlocal latest
        latest = now
        progress(now)

    waiting = asyncio.ensure_future(_ready(home, heard, own))
    ending = asyncio.ensure_future(own.ended()) if own is not None else None
    try:
        tasks = [task for task in (waiting, ending) if task is not None]
        await asyncio.wait(tasks, timeout=timeout_s or None, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            return waiting.result()
        if own is not None and ending is not None and ending.done():
            raise own.failure(ending.result())
        left = [f"{step.subject}: {step.detail}" for step in latest.steps if not step.done] if latest else []
        missing = "; ".join(left) or "the control plane does not answer"
        raise RequestTimeout(f"not ready after {timeout_s:g} s: {missing}")
    finally:
        for task in (waiting, ending):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, InferDeckError):
                    await task


async def _ready(home: Home, progress: Progress, own: ControlPlane | None) -> tuple[State, Snapshot]:
    heard = time.monotonic()
    while True:
        state = home.running()
        if state is None or (own is not None and state.pid != own.process.pid):
            heard = time.monotonic()
            await asyncio.sleep(_POLL_S)
            continue
        if own is not None:
            own.took_over = True
        try:
            async with OperatorClient(home.target()) as client:
                async for snapshot in client.watch(0.1):
                    heard = time.monotonic()
                    now = readiness(snapshot)
                    progress(now)
                    if now.hopeless:
                        serving = any(worker.phase is WorkerPhase.READY for worker in snapshot.workers)
                        raise _hopeless(now, own, partial=serving)
                    if now.ready and (state := home.running()) is not None and state.gateway_urls:
                        return state, snapshot
        except Unreachable:
            if own is None and home.running() is not None and time.monotonic() - heard > _SILENT_S:
                raise
            await asyncio.sleep(_POLL_S)


def _hopeless(now: Readiness, own: ControlPlane | None, *, partial: bool) -> StartFailed:
    raw = own.log_tail(f"worker-{now.culprit}.log", TAIL_LINES) if own is not None else []
    return StartFailed(now.hopeless, log=[text for line in raw for text in readable(line)], partial=partial)
