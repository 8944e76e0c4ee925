"""Log lines for people. Our own processes write JSON objects; anything else stands in a log as it came."""

from __future__ import annotations

import json
import time
from calendar import timegm
from pathlib import Path
from typing import Any

from console.text import literal

_SHOWN_APART = {
    "time",
    "level",
    "component",
    "logger",
    "message",
    "pid",
    "exception",
    "stack",
    "worker_id",
    "gateway_id",
}


def parsed(line: str) -> dict[str, Any] | None:
    """The record in a line, or None where the line is not one of ours."""
    if not line.startswith("{"):
        return None
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and "message" in record else None


def readable(line: str) -> list[str]:
    """The line as a person reads it: local time, level, message, then what else was noted; literal."""
    record = parsed(line)
    if record is None:
        return [literal(line.rstrip("\r"), keep="\t").expandtabs()]
    extra = " ".join(f"{name}={_value(value)}" for name, value in record.items() if name not in _SHOWN_APART)
    head = f"{_clock(str(record.get('time', '')))} {str(record.get('level', '')).upper():<7} {record['message']}"
    lines = [f"{head}  {extra}" if extra else head]
    for name in ("exception", "stack"):
        lines += [f"    {part}" for part in str(record.get(name, "")).splitlines()]
    return [literal(part) for part in lines]


def _value(value: Any) -> str:
    return value if isinstance(value, str) and value and " " not in value else json.dumps(value, ensure_ascii=False)


def _clock(stamp: str) -> str:
    try:
        return time.strftime("%H:%M:%S", time.localtime(timegm(time.strptime(stamp[:19], "%Y-%m-%dT%H:%M:%S"))))
    except ValueError:
        return stamp


def tail_of(path: Path, lines: int, start: int = 0) -> list[str]:
    """The last lines of a file that were written after byte ``start``, raw; none where there is no such file."""
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(start, file.tell() - (1 << 17)))
            return file.read().decode("utf-8", "backslashreplace").splitlines()[-lines:]
    except OSError:
        return []
