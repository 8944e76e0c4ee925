"""The processes of an engine: whether they live, and why they ended."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Self, cast

import psutil

from control_plane.contracts.worker_spec import start_ticks
from workers.engine.vllm_env import REASON_FILE

_KILL_WAIT_S = 5.0
_EXIT_CODE_S: Final = 0.1
"""vLLM's monitor thread may have taken a core's exit code; it has noted it after this long."""
_MOST_WORDS = 65_536


class LastWords:
    """A place in memory, named in the environment, where processes started from here say why they end."""

    def __init__(self) -> None:
        self._file = os.memfd_create("last-words")
        self._kept = False

    def __enter__(self) -> Self:
        # By this name also processes that do not inherit the descriptor can open it.
        os.environ[REASON_FILE] = f"/proc/{os.getpid()}/fd/{self._file}"
        return self

    def __exit__(self, *_: object) -> None:
        os.environ.pop(REASON_FILE, None)
        if not self._kept:
            self.close()

    def keep(self) -> Self:
        """Leave it open after the block; the caller closes it."""
        self._kept = True
        return self

    def read(self) -> str:
        """What the first process to fail said: the others failed because of it."""
        words = os.pread(self._file, _MOST_WORDS, 0).decode(errors="replace").strip()
        return words.partition("\n")[0]

    def close(self) -> None:
        os.close(self._file)


class CoreProcesses:
    """Watches the engine's core processes from the event loop; ``ended`` is told why, once, when the first one ends.

    ``processes`` are ``multiprocessing`` processes, started by this process.
    """

    def __init__(
        self,
        processes: Iterable[Any],
        last_words: LastWords,
        loop: asyncio.AbstractEventLoop,
        ended: Callable[[str], None],
    ) -> None:
        self._processes = list(processes)
        self._last_words = last_words
        self._loop = loop
        self._ended = ended
        self._closed = False
        self._family = {process.pid: start_ticks(process.pid) for process in self._processes}
        self._watched: dict[int, Any] = {}
        for process in self._processes:
            # Readable when the process has ended, whoever reaps it.
            handle = os.pidfd_open(process.pid)
            self._watched[handle] = process
            loop.add_reader(handle, self._on_end, handle)

    def meet_family(self) -> None:
        """Remember what the cores have started; once they run, that stays the same."""
        for process in self._processes:
            with contextlib.suppress(psutil.Error):
                for child in psutil.Process(process.pid).children(recursive=True):
                    self._family[child.pid] = start_ticks(child.pid)

    def pids(self) -> tuple[int, ...]:
        """The cores, and what they have started, as far as they live."""
        return tuple(pid for pid, ticks in self._family.items() if ticks and start_ticks(pid) == ticks)

    def last_words(self) -> str:
        return "" if self._closed else self._last_words.read()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for handle in list(self._watched):
            self._unwatch(handle)
        self._last_words.close()

    def _on_end(self, handle: int) -> None:
        process = self._watched[handle]
        code = _exit_code(handle, process)
        self._unwatch(handle)
        if code is not None:
            self._tell(process, code)
        else:
            self._loop.call_later(_EXIT_CODE_S, lambda: self._tell(process, process.exitcode))

    def _tell(self, process: Any, code: int | None) -> None:
        words = self.last_words()
        self._ended(f"engine core {process.pid} {_how_it_ended(code)}" + (f": {words}" if words else ""))

    def _unwatch(self, handle: int) -> None:
        del self._watched[handle]
        self._loop.remove_reader(handle)
        os.close(handle)


def started_from_here() -> list[psutil.Process]:
    """The ``multiprocessing`` processes of this process, and theirs."""
    found = []
    for child in multiprocessing.active_children():
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(child.pid)
            found += [process, *process.children(recursive=True)]
    return found


def kill_all(processes: Sequence[psutil.Process]) -> None:
    """Kill those that still live, and wait until they are gone; blocks.

    Python's resource tracker is left to end by itself, as it does when the others are gone: it removes their shared
    memory.
    """
    trackers = [process for process in processes if is_resource_tracker(process)]
    others = [process for process in processes if process not in trackers]
    _kill(others)
    _, left = psutil.wait_procs(trackers, timeout=_KILL_WAIT_S)
    _kill(left)


def _kill(processes: Sequence[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(list(processes), timeout=_KILL_WAIT_S)


def is_resource_tracker(process: psutil.Process) -> bool:
    """Whether it is the helper process by which Python removes what killed processes have left in shared memory."""
    try:
        return any("resource_tracker" in argument for argument in process.cmdline())
    except psutil.Error:
        return False


def _exit_code(handle: int, process: Any) -> int | None:
    """None where another thread has waited for the process and not said yet what it heard."""
    try:
        status = os.waitid(os.P_PIDFD, handle, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    except ChildProcessError:
        status = None
    if status is not None:
        return status.si_status if status.si_code == os.CLD_EXITED else -status.si_status
    return cast(int | None, process.exitcode)


def _how_it_ended(code: int | None) -> str:
    if code is None:
        return "ended"
    if code >= 0:
        return f"exited with {code}"
    name = signal.Signals(-code).name
    return f"was killed by {name}" + (", perhaps for want of memory" if -code == signal.SIGKILL else "")
