"""What one check found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """``hint`` is a command, or what to change; "" where all is well."""

    name: str
    verdict: Verdict
    detail: str
    hint: str = ""


def ok(name: str, detail: str) -> Finding:
    return Finding(name, Verdict.OK, detail)


def warn(name: str, detail: str, hint: str) -> Finding:
    return Finding(name, Verdict.WARN, detail, hint)


def fail(name: str, detail: str, hint: str) -> Finding:
    return Finding(name, Verdict.FAIL, detail, hint)
