"""Workers as processes of this machine.

Each leads a session of its own, so nothing that happens to the control plane's terminal or group reaches it, and all
that it made can be ended with it. Its output goes to a log file of its own. It is found again by two files: its spec,
written before the process exists, and its announcement, whose first version is written here the moment the process
does, so that there is no time in which a killed control plane would leave a worker that nobody knows of.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from control_plane.contracts.identity import Peer
from control_plane.contracts.worker_spec import Announcement, WorkerSpec, start_ticks
from control_plane.fleet.launcher.base import Found, LaunchFailed
from control_plane.fleet.launcher.log_file import open_log
from control_plane.fleet.launcher.preloader import Preloader
from control_plane.fleet.launcher.process import Process, boot_unix, kill_session
from control_plane.trust.keyring import Keyring

log = logging.getLogger(__name__)


class LocalLauncher:
    """``folder`` holds specs and announcements, ``logs`` the workers' output; ``keyring`` makes their credentials."""

    def __init__(
        self, folder: Path, logs: Path, preloader: Preloader | None = None, keyring: Keyring | None = None
    ) -> None:
        self._folder = folder
        self._logs = logs
        self._keyring = keyring
        self._preloader = preloader or Preloader(logs / "preloader.log")

    async def start(self, spec: WorkerSpec) -> Process:
        path = self._spec_path(spec.worker_id)
        announcement = self._announcement_path(spec.worker_id)
        try:
            announcement.unlink(missing_ok=True)
            if spec.credentials and self._keyring is not None:
                await asyncio.to_thread(self._keyring.ensure_peer, Peer.WORKER, spec.worker_id)
            spec.save(path)
            if _forked(spec):
                process = await self._fork(path)
            else:
                process = self._spawn(path, Path(spec.log_path))
        except OSError as error:
            raise _failed(spec, error) from None
        try:
            _record(announcement, Announcement(spec.worker_id, "", process.pid, process.ticks, "loading"))
        except OSError as error:
            # Nobody would find it again.
            process.send(signal.SIGKILL)
            await process.wait()
            kill_session(process.pid, process.ticks)
            raise _failed(spec, error) from None
        return process

    def waits_for(self, spec: WorkerSpec) -> str:
        return "vLLM is imported, once for all workers" if _forked(spec) and not self._preloader.ready else ""

    def found(self) -> tuple[Found, ...]:
        ids = {path.name.removesuffix(".spec.json") for path in self._folder.glob("*.spec.json")}
        ids |= {path.name.removesuffix(".json") for path in self._folder.glob("*.json")}
        return tuple(
            Found(worker_id, self._spec(worker_id), self.announcement(worker_id))
            for worker_id in sorted(name for name in ids if not name.endswith(".spec"))
        )

    def attach(self, found: Found) -> Process | None:
        announcement = found.announcement
        if announcement is not None:
            if self._announced_at(found.worker_id) < boot_unix():
                return None
            if process := Process.attach(announcement.pid, announcement.start_ticks):
                return process
        pid = _running(self._spec_path(found.worker_id))
        return Process.attach(pid, start_ticks(pid)) if pid else None

    def announcement(self, worker_id: str) -> Announcement | None:
        try:
            return Announcement.load(self._announcement_path(worker_id))
        except (OSError, ValueError, TypeError):
            return None

    def clean_up(self, worker_id: str, process: tuple[int, int] | None, *, forget: bool) -> None:
        if process is not None and (killed := kill_session(*process)):
            log.warning("killed what a worker left running", extra={"worker": worker_id, "pids": killed})
        if forget:
            self._announcement_path(worker_id).unlink(missing_ok=True)
            self._spec_path(worker_id).unlink(missing_ok=True)
            if self._keyring is not None:
                self._keyring.forget(Peer.WORKER, worker_id)

    def log_path(self, worker_id: str) -> Path:
        return self._logs / f"worker-{worker_id}.log"

    async def close(self) -> None:
        await self._preloader.close()

    async def _fork(self, spec: Path) -> Process:
        pid = await self._preloader.spawn(spec)
        process = Process.attach(pid, start_ticks(pid))
        if process is None:
            raise LaunchFailed("the worker ended as soon as it was forked")
        return process

    def _spawn(self, spec: Path, log_path: Path) -> Process:
        with open_log(log_path) as output:
            child = subprocess.Popen(
                [sys.executable, "-m", "workers", "--spec", str(spec)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        return Process.of_child(child)

    def _spec(self, worker_id: str) -> WorkerSpec | None:
        try:
            return WorkerSpec.load(self._spec_path(worker_id))
        except (OSError, ValueError, TypeError):
            return None

    def _announced_at(self, worker_id: str) -> float:
        with contextlib.suppress(OSError):
            return self._announcement_path(worker_id).stat().st_mtime
        return 0.0

    def _spec_path(self, worker_id: str) -> Path:
        return self._folder / f"{worker_id}.spec.json"

    def _announcement_path(self, worker_id: str) -> Path:
        return self._folder / f"{worker_id}.json"


def _failed(spec: WorkerSpec, error: OSError) -> LaunchFailed:
    return LaunchFailed(f"worker {spec.worker_id} cannot be started: {error}")


def _forked(spec: WorkerSpec) -> bool:
    """Whether the worker comes from the preloader: with a GPU each imports vLLM by itself, as CUDA forbids forks."""
    return spec.engine == "vllm" and not spec.gpus


def same_work(one: WorkerSpec, other: WorkerSpec) -> bool:
    """Whether two specs give the same worker: all but its devices, its port, its past, where its files are, and where
    its settings stand in theirs."""

    def essence(spec: WorkerSpec) -> dict[str, object]:
        values = dataclasses.asdict(spec)
        for name in ("gpus", "port", "restarts", "announce_path", "log_path", "cache_dir", "written"):
            values.pop(name)
        values["credentials"] = bool(spec.credentials)
        return values

    return essence(one) == essence(other)


def _record(path: Path, announcement: Announcement) -> None:
    """Write an announcement unless the worker has written its own by now."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w") as file:
            json.dump(dataclasses.asdict(announcement), file)
        with contextlib.suppress(FileExistsError):
            os.link(name, path)
    finally:
        os.unlink(name)


def _running(spec: Path) -> int:
    """The pid of a worker that was started for this spec and has announced nothing yet; 0 if there is none."""
    wanted = [b"-m", b"workers", b"--spec", os.fsencode(spec)]
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        with contextlib.suppress(OSError):
            if (entry / "cmdline").read_bytes().split(b"\0")[1:5] == wanted:
                return int(entry.name)
    return 0
