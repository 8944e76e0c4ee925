"""A policy's document as TOML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def to_toml(document: dict[str, Any]) -> str:
    """Plain values first, then a table for each tier, each tenant and each other part."""
    return "\n".join(_lines(document, "")).lstrip("\n")


def _lines(table: dict[str, Any], path: str) -> Iterator[str]:
    """The table's own values under its head, where it has any or is empty; then the tables in it."""
    tables = {name: value for name, value in table.items() if isinstance(value, dict)}
    if path and (len(tables) < len(table) or not table):
        yield f"\n[{path}]"
    for name, value in table.items():
        if name not in tables:
            yield f"{_key(name)} = {_value(value)}"
    for name, value in tables.items():
        yield from _lines(value, f"{path}.{_key(name)}" if path else _key(name))


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):  # in a list: a table of its own line
        return "{" + ", ".join(f"{_key(name)} = {_value(entry)}" for name, entry in value.items()) + "}"
    # Strings and lists of them are written alike in JSON; \u escapes, and no surrogates, are TOML's too.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
