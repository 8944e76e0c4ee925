"""What is wrong with a lesson's files: each fault with file, line and column, all of them at once."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.toml_places import Place


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    file: str
    place: Place
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.place.line}:{self.place.column}: {self.message}"


class BadLesson(InvalidRequest):
    """A lesson that cannot be played; the message has one line per fault."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(sorted(faults))
        first = self.faults[0]
        super().__init__("\n".join(map(str, self.faults)), hint=f"edit {first.file}")


def nearest(name: str, known: Iterable[str]) -> str:
    """What to say after "unknown …": the one that was meant, or all that there are."""
    options = list(known)
    close = difflib.get_close_matches(name, options, n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else f"known are {', '.join(options)}"
