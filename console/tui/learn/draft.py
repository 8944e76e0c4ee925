"""What a learner has typed or chosen so far at a question. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lessons.answers import letter
from lessons.model import Predict, Quiz

_MOST: Final = 16
_NUMBER: Final = frozenset("0123456789.,%")
_UNIT: Final = frozenset(" ×/-")
_KEY: Final = "h"
"""A hint can be had with half a number typed, too; no unit has this letter."""


class Draft:
    """The answer to ``step``, before it is committed. ``workers`` are those that a question about one may name."""

    def __init__(self, step: Predict | Quiz, workers: Sequence[str] = (), given: str = "") -> None:
        self._step = step
        self.workers = tuple(workers)
        self.typed = given if self.by_number else ""
        self.chosen: int | None = None
        if not self.by_number and given in self._words():
            self.chosen = self._words().index(given)

    @property
    def by_number(self) -> bool:
        return isinstance(self._step, Predict) and self._step.asks == "number"

    @property
    def has_unit(self) -> bool:
        """Whether what is typed says its unit itself."""
        return any(char not in _NUMBER or char == "%" for char in self.typed)

    @property
    def options(self) -> tuple[str, ...]:
        """What there is to choose from; empty where a number is typed."""
        if isinstance(self._step, Predict) and self._step.asks == "worker":
            return self.workers
        return tuple(option.text for option in self._step.options)

    @property
    def text(self) -> str:
        """As it is committed; "" while there is none."""
        return self.typed if self.by_number else "" if self.chosen is None else self._words()[self.chosen]

    def press(self, char: str) -> bool:
        """A character of a number or, once there is one, of its unit; or the letter of an option. Whether it is one."""
        if self.by_number:
            unit = self.typed and char.lower() != _KEY and (char.isalpha() or char in _UNIT)
            if char not in _NUMBER and not unit:
                return False
            self.typed = (self.typed + char)[:_MOST]
            return True
        char = char.lower()
        letters = [letter(index) for index in range(len(self.options))]
        if char not in letters:
            return False
        self.chosen = letters.index(char)
        return True

    def paste(self, text: str) -> None:
        for char in text.strip():
            self.press(char)

    def erase(self) -> None:
        self.typed = self.typed[:-1]
        self.chosen = None

    def move(self, by: int) -> None:
        """To the next option, or the one before."""
        if options := self.options:
            at = -1 if self.chosen is None and by > 0 else self.chosen or 0
            self.chosen = max(0, min(len(options) - 1, at + by))

    def _words(self) -> Sequence[str]:
        """What each option is committed as."""
        if isinstance(self._step, Predict) and self._step.asks == "worker":
            return self.workers
        return [letter(index) for index in range(len(self._step.options))]
