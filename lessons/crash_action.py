"""What a lesson may do to the worker of one call; see ``actions``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Crash:
    """The process of the worker that answers the last call of this name dies, and so, with ``times``, does that of each
    other worker that goes on with it. Goes on when that was noticed: the call has more text from elsewhere, or is
    over."""

    word: ClassVar[str] = "crash"
    lasting: ClassVar[bool] = False

    calls: str
    times: int = 1

    def told(self) -> str:
        again = f", {self.times} times" if self.times > 1 else ""
        return f"inferdeck inject WORKER crash, where the call ({self.calls}) is{again}"
