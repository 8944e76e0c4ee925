"""``-o``: one set of formats for everything that can be read. JSON, YAML and names carry the full data always."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, TypeVar

from console.plain.data import to_json, to_yaml
from console.plain.table import Column, table
from console.plain.terminal import is_terminal, out, say, width
from console.text import fit

R = TypeVar("R")


class Format(StrEnum):
    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


def write_data(value: Any, output: Format) -> None:
    """One document, as JSON or YAML."""
    out(to_yaml(value) if output is Format.YAML else to_json(value))


def write_rows(rows: Sequence[R], columns: Sequence[Column[R]], *, wide: bool = False) -> None:
    """A table, cut to the terminal if there is one."""
    chosen = [column for column in columns if wide or not column.wide]
    made = table(rows, chosen, width(sys.stdout))
    for line in made.lines:
        out(line)
    if made.dropped and is_terminal(sys.stderr):
        hidden = f"{made.dropped} columns did not fit: -o json has everything"
        say(fit(hidden, width(sys.stderr) or 80), "quiet")
