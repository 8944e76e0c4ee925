"""Values as JSON and YAML."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from enum import Enum
from typing import Any

from console.text import unsafe


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
