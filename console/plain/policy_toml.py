"""A policy's document as TOML."""

from __future__ import annotations

import json
import re
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def to_toml(document: dict[str, Any]) -> str:
    """Plain values first, then a table for each tier and tenant."""
    lines = _values(document)
    for section in ("tiers", "tenants"):
        for name, entry in document.get(section, {}).items():
            lines += ["", f"[{section}.{_key(name)}]", *_values(entry)]
    return "\n".join(lines)


def _values(table: dict[str, Any]) -> list[str]:
    return [f"{_key(name)} = {_value(value)}" for name, value in table.items() if not isinstance(value, dict)]


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name)


def _value(value: Any) -> str:
    # Strings and lists of them are written alike in JSON; \u escapes, and no surrogates, are TOML's too.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
