"""Start-up on stderr: what is done stays as a line, what goes on is one line that is written over on a terminal."""

from __future__ import annotations

import re
import sys
import time

from console import figures
from console.plain.terminal import dumb, is_terminal, paint, say, width
from console.readiness import Readiness
from console.text import fit, literal

_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_NUMBERS = re.compile(r"[\d.]+")


class StartProgress:
    """Tell each step once when it is done; in between, what every unfinished one is at.

    With ``news_only``, what was done already at the first look is no news.
    """

    def __init__(self, *, news_only: bool = False) -> None:
        self._silent = news_only
        self._began = time.monotonic()
        self._live = is_terminal(sys.stderr) and not dumb()
        self._done: set[str] = set()
        self._said: dict[str, str] = {}
        self._turn = 0
        self._line = "starting the control plane"

    def __call__(self, now: Readiness) -> None:
        for step in now.steps:
            if step.done and step.subject not in self._done:
                self._done.add(step.subject)
                if self._silent:
                    continue
                self._settle(f"{paint('✓', 'good', sys.stderr)} {literal(step.subject)}  {literal(step.detail)}")
            elif not step.done:
                self._done.discard(step.subject)
        self._silent = False
        going_on = [f"{step.subject} {step.detail}" for step in now.steps if not step.done]
        self._line = literal(" · ".join(going_on) or "starting")
        if self._live:
            self.tick()
            return
        for step in now.steps:
            gist = _NUMBERS.sub("", step.detail)
            if not step.done and self._said.get(step.subject) != gist:
                self._said[step.subject] = gist
                say(f"  {literal(step.subject)}  {literal(step.detail)}")

    def tick(self) -> None:
        """Turn the spinner."""
        if not self._live:
            return
        self._turn += 1
        text = f"{_SPINNER[self._turn % len(_SPINNER)]} {figures.age(time.monotonic() - self._began)} {self._line}"
        sys.stderr.write("\r\x1b[K" + fit(text, (width(sys.stderr) or 80) - 1))
        sys.stderr.flush()

    def clear(self) -> None:
        """Take the line that is written over away."""
        if self._live:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def _settle(self, line: str) -> None:
        self.clear()
        say(line)
