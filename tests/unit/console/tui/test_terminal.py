"""A real terminal, seen from its other end: however the console ends, the terminal is as it was."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
SCRIPT = """
import asyncio
from console.tui.app import ConsoleApp
from tests.snapshots.memory import MemoryPlatform, snapshot
class Platform(MemoryPlatform):
    async def logs(self, target, tail_lines):
        raise RuntimeError("a bug in the console")
        yield b""
platform = Platform()
platform.queue.put_nowait(snapshot())
app = ConsoleApp(platform, platform)
left = app.run()
raise SystemExit(app.return_code if left is None else left)
"""
SHOWN, HIDDEN = b"\x1b[?1049h", b"\x1b[?1049l"


@dataclass
class Terminal:
    process: subprocess.Popen[bytes]
    end: int
    before: list[object]
    seen: bytes = field(default=b"")

    def until(self, words: bytes | Callable[[], bool]) -> None:
        limit = time.monotonic() + 60
        while not (words in self.seen if isinstance(words, bytes) else words()):
            assert time.monotonic() < limit, self.seen[-2000:]
            if select.select([self.end], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.end, 65536)
                except OSError:
                    return

    def restored(self) -> bool:
        return termios.tcgetattr(self.end) == self.before

    def ended(self) -> int:
        self.until(lambda: self.process.poll() is not None)
        return self.process.wait(30)


@contextmanager
def in_terminal(script: str, *arguments: str) -> Iterator[Terminal]:
    """The script, run in a terminal of its own."""
    end, console = pty.openpty()
    termios.tcsetwinsize(console, (30, 100))
    before = termios.tcgetattr(end)
    environ = {**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", script, *arguments]
    process = subprocess.Popen(command, stdin=console, stdout=console, stderr=console, env=environ, cwd=ROOT)
    try:
        yield Terminal(process, end, before)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(console)
        os.close(end)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    with in_terminal(SCRIPT) as made:
        made.until(b"smollm2-1")
        yield made


def test_leaving_restores_the_terminal(terminal: Terminal) -> None:
    assert SHOWN in terminal.seen
    os.write(terminal.end, b"q")
    assert terminal.ended() == 0
    assert terminal.seen.rindex(HIDDEN) > terminal.seen.rindex(SHOWN)
    assert terminal.restored()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_restores_the_terminal(terminal: Terminal, number: signal.Signals) -> None:
    terminal.process.send_signal(number)
    assert terminal.ended() == 128 + number
    assert HIDDEN in terminal.seen
    assert terminal.restored()


def test_a_bug_restores_the_terminal_and_is_shown(terminal: Terminal) -> None:
    os.write(terminal.end, b"\r")
    assert terminal.ended() == 1
    terminal.until(b"a bug in the console")
    assert HIDDEN in terminal.seen
    assert terminal.restored()
