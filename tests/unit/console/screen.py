"""A command on a pseudo-terminal of its own."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from dataclasses import dataclass
from pathlib import Path

COMMAND = [sys.executable, "-c", "from console.cli import main; main()"]
ON_TERMINAL = [
    sys.executable,
    "-c",
    "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); from console.cli import main; main()",
]
LIMIT_S = 60.0
ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@dataclass
class Screen:
    """A command on a pseudo-terminal."""

    process: subprocess.Popen[bytes]
    master: int
    text: str = ""

    @classmethod
    def run(cls, home: Path, *words: str, columns: int = 80, lines: int = 24, **environment: str) -> Screen:
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        env = {**os.environ, "INFERDECK_HOME": str(home), "COLUMNS": str(columns), "TERM": "xterm", **environment}
        process = subprocess.Popen(
            [*ON_TERMINAL, *words], env=env, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
        )
        os.close(slave)
        return cls(process, master)

    def until(self, words: str, *, typing: str = "") -> None:
        """Wait for words. ``typing`` is typed once a second until they come: a Ctrl-C that meets readline just between
        its prompt and its wait is lost to it."""
        deadline = time.monotonic() + LIMIT_S
        typed = 0.0
        while words not in self.text:
            assert time.monotonic() < deadline, f"{words!r} never came: {self.text!r}"
            if typing and time.monotonic() - typed > 1.0:
                self.type(typing)
                typed = time.monotonic()
            if select.select([self.master], [], [], 1.0)[0]:
                try:
                    self.text += os.read(self.master, 65536).decode("utf-8", "replace")
                except OSError:
                    assert words in self.text, f"it ended with {self.text!r}"

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def leave(self, keys: str) -> int:
        """Type the keys, once a second, until the command ends; see ``until``. Its exit code."""
        deadline = time.monotonic() + LIMIT_S
        while self.process.poll() is None and time.monotonic() < deadline:
            self.type(keys)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(1.0)
        return self.end()

    def end(self) -> int:
        """Read to the end; the exit code."""
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            try:
                data = os.read(self.master, 4096)
            except OSError:
                break
            if not data:
                break
            self.text += data.decode("utf-8", "replace")
        os.close(self.master)
        return self.process.wait(LIMIT_S)

    @property
    def lines(self) -> list[str]:
        return ANSI.sub("", self.text).replace("\r", "").splitlines()
