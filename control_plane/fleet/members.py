"""Processes that the control plane keeps running beside the workers: started, found again, started again, stopped.

Like workers they lead sessions of their own, write their output to a log, and leave a record by which the next control
plane finds them. Unlike workers their number is a setting, and they tell how they are by joining.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from control_plane.contracts.gateway_record import END_NOW, FINISH, read_record, write_record
from control_plane.fleet.cause import cause_of
from control_plane.fleet.changes import Changes
from control_plane.fleet.events import Events
from control_plane.fleet.launcher.log_file import open_log
from control_plane.fleet.launcher.process import Process, boot_unix, kill_session
from control_plane.fleet.state import STABLE_S, backoff_s
from control_plane.settings import Home
from control_plane.tasks import Tasks

POLL_S: Final = 0.05
LAST_WORDS_S: Final = 5.0

TERM_S: Final = 8.0
"""After SIGTERM a member lets its calls go on for five seconds."""

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class MemberProcess:
    """One of them. ``url`` is where it listens, the last one while it is being started again."""

    id: str
    url: str = ""
    process: Process | None = None
    failures: int = 0
    reason: str = ""
    adopted: bool = False

    @property
    def pid(self) -> int:
        return self.process.pid if self.process is not None and not self.process.ended else 0


class Members(ABC):
    """All of one kind. ``lost`` is told of one whose process has ended and returns how many requests went with it;
    ``urls_changed`` is called when one listens, perhaps somewhere else than before."""

    noun = ""
    """"gateway" or "router": subcommand, log name and kind of event."""

    def __init__(
        self,
        names: Sequence[str],
        home: Home,
        records: Path,
        config: Path | None,
        events: Events,
        changes: Changes,
        lost: Callable[[str], int],
        urls_changed: Callable[[], None],
    ) -> None:
        self._home = home
        self._records = records
        self._config = config
        self._events = events
        self._changes = changes
        self._lost = lost
        self._urls_changed = urls_changed
        self._members = {name: MemberProcess(name) for name in names}
        self._tasks = Tasks()
        self._stopping = False

    def all(self) -> tuple[MemberProcess, ...]:
        return tuple(self._members.values())

    def urls(self) -> list[str]:
        return [member.url for member in self._members.values() if member.url]

    @abstractmethod
    def port(self, name: str) -> int:
        """The port that settings give a member; 0 is any."""

    @abstractmethod
    def fits(self, member: MemberProcess, record: dict[str, Any]) -> bool:
        """Whether one that was found is what the settings say now; ``member.url`` is where it listens, if it does."""

    def more_arguments(self, member: MemberProcess) -> list[str]:
        """For its command line, beyond home, id and port."""
        return []

    async def find(self) -> None:
        """Look for members of an earlier control plane: take over the wanted ones, end the others. Once, first."""
        unwanted: list[Process] = []
        for path in sorted(self._records.glob("*.json")):
            record = read_record(path)
            process = self._attach(path, record)
            member = self._members.get(path.stem)
            if member is not None:
                member.url = str(record.get("url", ""))
                if process is not None and self.fits(member, record):
                    member.process, member.adopted = process, True
                    self._record(member.id, "adopted", f"pid {process.pid} runs on")
                    continue
            if process is not None:
                unwanted.append(process)
                self._record(path.stem, "stopped", "it is not what the settings say now")
            if member is None:
                path.unlink(missing_ok=True)
        await _end(unwanted, signal.SIGTERM, TERM_S)
        await _end(unwanted, signal.SIGKILL, LAST_WORDS_S)

    def start(self) -> None:
        for member in self._members.values():
            self._tasks.keep(functools.partial(self._supervise, member), f"{self.noun} {member.id}")

    async def stop(self, grace_s: float, hurry: asyncio.Event) -> None:
        """Stop them all: nothing new at once; what runs may go on for the grace, in seconds, or until told to hurry."""
        self._stopping = True
        await self._tasks.cancel()
        running = [member.process for member in self.all() if member.process is not None]
        if grace_s > 0:
            hurried = asyncio.create_task(hurry.wait())
            await _end(running, FINISH, grace_s, hurried)
            hurried.cancel()
        await _end(running, END_NOW, LAST_WORDS_S)
        await _end(running, signal.SIGKILL, LAST_WORDS_S)
        for member in self.all():
            if member.process is not None:
                kill_session(member.process.pid, member.process.ticks)
            self._record_path(member).unlink(missing_ok=True)

    def _record_path(self, member: MemberProcess) -> Path:
        return self._records / f"{member.id}.json"

    def _log_path(self, member: MemberProcess) -> Path:
        return self._home.log(f"{self.noun}-{member.id}")

    def _record(self, name: str, what: str, message: str, severity: str = "info") -> None:
        self._events.record(f"{self.noun}_{what}", f"{self.noun}/{name}", message, severity)

    async def _supervise(self, member: MemberProcess) -> None:
        while not self._stopping:
            if member.process is None or member.process.ended:
                try:
                    member.process = self._spawn(member)
                except OSError as error:
                    member.process = None
                    member.failures += 1
                    member.reason = f"cannot be started: {error}"
            if member.process is not None:
                await self._until_end(member, member.process)
            delay = backoff_s(member.failures)
            self._record(member.id, "failed", f"{member.reason}; starts again in {delay:.1f} s", "error")
            await asyncio.sleep(delay)

    async def _until_end(self, member: MemberProcess, process: Process) -> None:
        began = asyncio.get_running_loop().time()
        watching = self._tasks.keep(functools.partial(self._watch_url, member, process), f"address of {member.id}")
        try:
            await process.wait()
        finally:
            watching.cancel()
        served = asyncio.get_running_loop().time() - began >= STABLE_S
        member.failures = 1 if served else member.failures + 1
        member.reason = cause_of(process.exit, None, self._log_path(member))
        kill_session(process.pid, process.ticks)
        if lost := self._lost(member.id):
            member.reason += f"; {lost} requests ended with it"
        self._changes.bump()

    async def _watch_url(self, member: MemberProcess, process: Process) -> None:
        """Until it says where it listens."""
        while True:
            record = read_record(self._record_path(member))
            if record.get("pid") == process.pid and (url := str(record.get("url", ""))):
                member.url = url
                if not member.adopted:
                    self._record(member.id, "started", f"listens on {url}")
                member.adopted = False
                self._urls_changed()
                self._changes.bump()
                return
            await asyncio.sleep(POLL_S)

    def _spawn(self, member: MemberProcess) -> Process:
        command = [sys.executable, "-m", "control_plane", self.noun, "--home", str(self._home.root)]
        command += ["--id", member.id, "--port", str(self.port(member.id)), *self.more_arguments(member)]
        if self._config is not None:
            command += ["--config", str(self._config)]
        with open_log(self._log_path(member)) as output:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        try:
            write_record(self._record_path(member), child.pid, "")
            process = Process.of_child(child)
        except BaseException:
            # Nobody would look after it, nor find it again.
            child.kill()
            child.wait()
            raise
        log.info("member process made", extra={self.noun: member.id, "member_pid": child.pid})
        return process

    def _attach(self, path: Path, record: dict[str, Any]) -> Process | None:
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < boot_unix():
                return None
        return Process.attach(int(record.get("pid", 0)), int(record.get("start_ticks", 0)))


async def _end(
    processes: list[Process], number: signal.Signals, patience_s: float, unless: asyncio.Task[Any] | None = None
) -> None:
    """Signal those that still run, and wait for their end, the end of patience, or of ``unless``."""
    left = [process for process in processes if not process.ended]
    for process in left:
        process.send(number)
    if left:
        ending = asyncio.gather(*(process.wait() for process in left))
        await asyncio.wait({ending, *([unless] if unless else [])}, timeout=patience_s, return_when="FIRST_COMPLETED")
        ending.cancel()
        await asyncio.gather(ending, return_exceptions=True)
