"""A policy's document as tables: what it has by name as rows, all else as settings.

It knows no section by name, so that a new one is shown like the others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from console import figures
from console.text import literal, width

NAME, SETTING, VALUE = "NAME", "SETTING", "VALUE"


@dataclass(frozen=True, slots=True)
class Section:
    """``name`` is the path in the document, empty for the document's own values. Rows are as wide as ``columns``, as
    plain text; no rows: nothing is said there."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def fitted(self, room: int | None, gap: int = 2) -> Section:
        """As it is, or with rows and columns changed about where only that fits into so many cells."""
        if room is None or not self.rows or self._width(gap) <= room:
            return self
        heads, *rows = zip(self.columns, *self.rows, strict=True)
        turned = Section(self.name, (SETTING, *heads[1:]), tuple((row[0].lower(), *row[1:]) for row in rows))
        return turned if turned._width(gap) <= room else self

    def _width(self, gap: int) -> int:
        cells = zip(self.columns, *self.rows, strict=True)
        return sum(max(width(literal(text)) for text in column) + gap for column in cells) - gap


def sections(document: Mapping[str, Any]) -> tuple[Section, ...]:
    """In the order of the document, each before those within it."""
    return tuple(_sections("", document))


def _sections(path: str, table: Mapping[str, Any]) -> Iterator[Section]:
    if path and _is_listing(table):
        yield _listing(path, table)
        return
    values = {name: value for name, value in table.items() if not isinstance(value, Mapping)}
    within = {name: value for name, value in table.items() if isinstance(value, Mapping)}
    if values or not within:
        yield Section(path, (SETTING, VALUE), tuple((name, cell(value, name)) for name, value in values.items()))
    for name, value in within.items():
        yield from _sections(f"{path}.{name}" if path else name, value)


def _is_listing(table: Mapping[str, Any]) -> bool:
    """Whether it is things by name, each with values of its own."""
    return bool(table) and all(
        isinstance(entry, Mapping) and (not entry or any(not isinstance(value, Mapping) for value in entry.values()))
        for entry in table.values()
    )


def _listing(path: str, table: Mapping[str, Any]) -> Section:
    rows = {name: dict(_flat(entry)) for name, entry in table.items()}
    columns: list[str] = []
    for row in rows.values():
        at = 0
        for column in row:  # what only some have stands where it does in theirs
            at = columns.index(column) + 1 if column in columns else at + 1
            if column not in columns:
                columns.insert(at - 1, column)
    return Section(
        path,
        (NAME, *(column.upper() for column in columns)),
        tuple((name, *(row.get(column, figures.NONE) for column in columns)) for name, row in rows.items()),
    )


def _flat(entry: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    for name, value in entry.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", cell(value, name)


def cell(value: Any, name: str = "") -> str:
    """A value as people read it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}" if name != "version" else str(value)
    if isinstance(value, float):
        return f"{value:,g}"
    if value is None:
        return figures.NONE
    if isinstance(value, list | tuple):
        if not value:
            return "all" if name == "models" else figures.NONE
        return ", ".join(cell(entry) for entry in value)
    return str(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
