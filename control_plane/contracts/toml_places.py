"""Where each key and each element of a TOML text stands, which ``tomllib`` does not tell.

Only texts that ``tomllib`` has accepted come here, so this follows keys, strings and brackets and checks nothing.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass

KeyPath = tuple[str | int, ...]

_SPACE = re.compile(r"[ \t]*")
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_KEY = re.compile(r"""(?:[^\s="'\[\]{},#.]+|"(?:\\.|[^"\\])*"|'[^']*'|[ \t]*\.[ \t]*)+""")
_SCALAR = re.compile(r"[^\s,\]}#]+(?: \d[^\s,\]}#]*)?")
_STRINGS = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?!")|'
    r"'''.*?'''(?!')|"
    r'"(?:\\.|[^"\\])*"|'
    r"'[^']*'",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Line and column, both from 1."""

    line: int
    column: int


def key_places(text: str) -> dict[KeyPath, Place]:
    """Key path → where it stands. Elements of an array, tables too, carry their index: ``("pool", 0, "name")``."""
    return _Follower(text).places()


def place_of(places: dict[KeyPath, Place], path: KeyPath) -> Place:
    """The place of a key, or of the closest thing around it that stands there."""
    for length in range(len(path), 0, -1):
        if path[:length] in places:
            return places[path[:length]]
    return Place(1, 1)


class _Follower:
    def __init__(self, text: str) -> None:
        self._text = text.replace("\r\n", "\n")
        self._at = 0
        self._found: dict[KeyPath, int] = {}

    def places(self) -> dict[KeyPath, Place]:
        for path, at in self._statements():
            self._found.setdefault(path, at)
        starts = [0, *(found.end() for found in re.finditer("\n", self._text))]
        placed: dict[KeyPath, Place] = {}
        line = 0
        for path, at in sorted(self._found.items(), key=lambda item: item[1]):
            while line + 1 < len(starts) and starts[line + 1] <= at:
                line += 1
            placed[path] = Place(line + 1, at - starts[line] + 1)
        return placed

    def _statements(self) -> Iterator[tuple[KeyPath, int]]:
        arrays: dict[KeyPath, int] = {}
        table: KeyPath = ()
        while self._skip(_BLANK) < len(self._text):
            if self._text[self._at] != "[":
                yield from self._pair(table)
                continue
            many = self._text.startswith("[[", self._at)
            self._at += 2 if many else 1
            self._skip(_SPACE)
            begin = self._at
            path = _resolve(self._key(), arrays)
            self._skip(_SPACE)
            self._at += 2 if many else 1
            yield path, begin
            if many:
                arrays[path] = arrays.get(path, -1) + 1
                path = (*path, arrays[path])
                yield path, begin
            table = path

    def _pair(self, table: KeyPath) -> Iterator[tuple[KeyPath, int]]:
        begin = self._at
        names = self._key()
        path = (*table, *names)
        for length in range(len(table) + 1, len(path) + 1):
            yield path[:length], begin
        self._skip(_SPACE)
        self._at += 1  # the equals sign
        self._skip(_SPACE)
        yield from self._value(path)

    def _value(self, path: KeyPath) -> Iterator[tuple[KeyPath, int]]:
        opener = self._text[self._at]
        if opener == "[":
            self._at += 1
            index = 0
            while not self._closes("]"):
                yield (*path, index), self._at
                yield from self._value((*path, index))
                index += 1
        elif opener == "{":
            self._at += 1
            while not self._closes("}"):
                yield from self._pair(path)
        else:
            pattern = _STRINGS if opener in "\"'" else _SCALAR
            self._skip(pattern)

    def _closes(self, bracket: str) -> bool:
        """Whether the array or table ends here; commas and comments in between are passed over."""
        self._skip(_BLANK)
        if self._text.startswith(",", self._at):
            self._at += 1
            self._skip(_BLANK)
        if self._text.startswith(bracket, self._at):
            self._at += 1
            return True
        return self._at >= len(self._text)

    def _key(self) -> list[str]:
        begin = self._at
        return _split(self._text[begin : self._skip(_KEY)])

    def _skip(self, pattern: re.Pattern[str]) -> int:
        found = pattern.match(self._text, self._at)
        self._at = found.end() if found else self._at + 1
        return self._at


def _resolve(names: list[str], arrays: dict[KeyPath, int]) -> KeyPath:
    """A header's path, with the index of the newest element where it goes through an array of tables."""
    path: KeyPath = ()
    for position, name in enumerate(names):
        path = (*path, name)
        if path in arrays and position < len(names) - 1:
            path = (*path, arrays[path])
    return path


def _split(dotted: str) -> list[str]:
    """The parts of a dotted key, quotes taken off."""
    node: object = tomllib.loads(f"{dotted.strip()} = 0")
    parts: list[str] = []
    while isinstance(node, dict):
        name = next(iter(node))
        parts.append(name)
        node = node[name]
    return parts
