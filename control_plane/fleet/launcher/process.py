"""One process that is looked after, whoever made it: its own child, or one that an earlier control plane started."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from pathlib import Path
from typing import Final

from control_plane.contracts.worker_spec import start_ticks

UNKNOWN_EXIT: Final = "ended"
"""How a process ended that is nobody's child here: only that it did."""


class Process:
    """A pid that cannot mean another process: it is held by a pidfd, taken while the start time was right.

    ``exit`` says how it ended, for people, once it has; ``exit_code`` is known of children only, and negative for a
    signal. ``ticks`` is the start time (see ``contracts.worker_spec.start_ticks``).
    """

    def __init__(self, pid: int, ticks: int, handle: int, child: subprocess.Popen[bytes] | None = None) -> None:
        self.pid = pid
        self.ticks = ticks
        self.exit_code: int | None = None
        self._handle = handle
        self._child = child
        self._ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(handle, self._on_end)

    @classmethod
    def of_child(cls, child: subprocess.Popen[bytes]) -> Process:
        """A child that has not been waited for: its pid is its own until then."""
        return cls(child.pid, start_ticks(child.pid), os.pidfd_open(child.pid), child)

    @classmethod
    def attach(cls, pid: int, ticks: int) -> Process | None:
        """The process with this pid and start time; None if it is not there any more."""
        if pid <= 0 or ticks <= 0:
            return None
        try:
            handle = os.pidfd_open(pid)
        except OSError:
            return None
        if start_ticks(pid) != ticks:
            os.close(handle)
            return None
        return cls(pid, ticks, handle)

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    @property
    def exit(self) -> str:
        if self.exit_code is None:
            return UNKNOWN_EXIT
        if self.exit_code >= 0:
            return f"exit code {self.exit_code}"
        try:
            return f"killed by {signal.Signals(-self.exit_code).name}"
        except ValueError:
            return f"killed by signal {-self.exit_code}"

    async def wait(self) -> None:
        await self._ended.wait()

    def send(self, number: signal.Signals) -> None:
        """Signal the process; nothing happens if it has ended."""
        if not self.ended:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)

    def close(self) -> None:
        """Look after it no longer; the process goes on."""
        if self._handle >= 0:
            asyncio.get_running_loop().remove_reader(self._handle)
            os.close(self._handle)
            self._handle = -1

    def _on_end(self) -> None:
        if self._child is not None:
            self.exit_code = self._child.wait()
        self.close()
        self._ended.set()


def kill_session(leader: int, since_ticks: int) -> list[int]:
    """SIGKILL everything that still belongs to the session of a process that led one and has ended; the pids.

    ``since_ticks`` is when the leader started: members are younger. If a new process has the leader's pid, the session
    is not ours and nothing is done.
    """
    if leader <= 0 or since_ticks <= 0 or start_ticks(leader) not in (0, since_ticks):
        return []
    killed: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            stat = (entry / "stat").read_text()
            owner = entry.stat().st_uid
        except OSError:
            continue
        fields = stat[stat.rindex(")") + 2 :].split()
        state, session, started = fields[0], int(fields[3]), int(fields[19])
        if session == leader and started >= since_ticks and owner == os.getuid() and state not in "ZX":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(int(entry.name), signal.SIGKILL)
                killed.append(int(entry.name))
    return killed


def boot_unix() -> float:
    """When this machine started, wall clock: records from before that name no process of today."""
    for line in Path("/proc/stat").read_text().splitlines():
        if line.startswith("btime "):
            return float(line.split()[1])
    return 0.0
