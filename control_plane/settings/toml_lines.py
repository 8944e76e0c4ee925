"""Where each key of a TOML text stands, which ``tomllib`` does not tell.

Only texts that ``tomllib`` has accepted come here, so this follows strings, brackets and headers and checks nothing.
"""

from __future__ import annotations

import re
import tomllib

KeyPath = tuple[str | int, ...]

_HEADER = re.compile(r"^\s*(\[\[?)(.+?)\]\]?\s*(?:#.*)?$")
_OPENERS = {"[": 1, "{": 1, "]": -1, "}": -1}


def key_lines(text: str) -> dict[KeyPath, int]:
    """Key path → line number (from 1). Tables of an array carry their index: ``("pool", 0, "name")``."""
    lines: dict[KeyPath, int] = {}
    arrays: dict[KeyPath, int] = {}
    table: KeyPath = ()
    scan = _Scan()
    for number, line in enumerate(text.splitlines(), 1):
        if scan.open:
            scan.feed(line)
            continue
        header = _HEADER.match(line)
        if header:
            path = _resolve(_split(header.group(2)), arrays)
            if header.group(1) == "[[":
                index = arrays.get(path, -1) + 1
                arrays[path] = index
                lines.setdefault(path, number)
                path = (*path, index)
            table = path
            lines.setdefault(table, number)
            continue
        key, separator, value = _partition(line)
        if separator:
            path = (*table, *_split(key))
            for length in range(len(table) + 1, len(path) + 1):
                lines.setdefault(path[:length], number)
            scan.feed(value)
    return lines


def line_of(lines: dict[KeyPath, int], path: KeyPath) -> int:
    """The line of a key, or of the closest thing around it (an inline table's keys have no line of their own)."""
    for length in range(len(path), 0, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return 1


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
    document = tomllib.loads(f"{dotted.strip()} = 0")
    parts: list[str] = []
    node: object = document
    while isinstance(node, dict):
        name = next(iter(node))
        parts.append(name)
        node = node[name]
    return parts


def _partition(line: str) -> tuple[str, str, str]:
    """Key, "=", value; the separator is empty on a line without a key. Equals signs in quoted keys are passed over."""
    quote = ""
    for index, char in enumerate(line):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char == "#":
            break
        elif char == "=":
            return line[:index], "=", line[index + 1 :]
    return line, "", ""


class _Scan:
    """Whether a value goes on in the next line: an open bracket, or an open multi-line string."""

    def __init__(self) -> None:
        self._depth = 0
        self._string = ""

    @property
    def open(self) -> bool:
        return self._depth > 0 or bool(self._string)

    def feed(self, text: str) -> None:
        index = 0
        while index < len(text):
            if self._string:
                if text[index] == "\\" and self._string[0] == '"':
                    index += 2
                elif text.startswith(self._string, index):
                    index += len(self._string)
                    self._string = ""
                else:
                    index += 1
                continue
            char = text[index]
            if char == "#":
                break
            if char in "\"'":
                self._string = char * 3 if text.startswith(char * 3, index) else char
                index += len(self._string)
                continue
            self._depth += _OPENERS.get(char, 0)
            index += 1
