"""``-o``: one set of formats for everything that can be read. JSON, YAML and names carry the full data always."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import sys
from collections.abc import Sequence
from enum import Enum, StrEnum
from typing import Any, TypeVar

from console.cli.table import Column, table
from console.cli.terminal import is_terminal, out, say, width
from console.text import unsafe

R = TypeVar("R")


class Format(StrEnum):
    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


def plain(value: Any) -> Any:
    """The value as JSON knows it: dataclasses by field, enums by their lower-case name, maps with text keys."""
    if isinstance(value, Enum):
        return value.value if isinstance(value, str) else value.name.lower()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


_RISKY = re.compile(r"[^ -~\n]")


def to_json(value: Any, *, indent: int | None = 2) -> str:
    """Readable JSON in which whatever a terminal would obey is escaped."""
    text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    return _RISKY.sub(lambda match: json.dumps(match[0])[1:-1] if unsafe(match[0]) else match[0], text)


def to_yaml(value: Any) -> str:
    import yaml

    return yaml.safe_dump(value, sort_keys=False, allow_unicode=False, width=10**6).rstrip("\n")


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
        say(f"{made.dropped} columns did not fit: -o json has everything", "quiet")
