"""Why a process ended, for people: its exit, and what it or its log says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from control_plane.contracts.worker_spec import Announcement
from control_plane.fleet.launcher.log_file import last_lines
from control_plane.fleet.launcher.process import UNKNOWN_EXIT
from control_plane.telemetry import redact

LONGEST: Final = 500
_LINES: Final = 20
_BYTES: Final = 65_536


def cause_of(exit_text: str, said: Announcement | None, log_path: Path) -> str:
    """What the process announced of its failure; else the end of its log."""
    if said is not None and said.phase == "failed" and said.detail:
        how = "" if exit_text == UNKNOWN_EXIT else f" ({exit_text})"
        return redact(said.detail[:LONGEST] + how)
    words = last_words(log_path)
    return redact(f"{exit_text}; its log ends: {words}" if words else exit_text)


def last_words(path: Path) -> str:
    """The last line of a log that says something; of a structured line, its message and cause."""
    for raw in reversed(last_lines(path, _LINES, _BYTES).decode(errors="replace").splitlines()):
        if text := _said(raw.strip()):
            return text[:LONGEST]
    return ""


def _said(line: str) -> str:
    try:
        values = json.loads(line)
    except ValueError:
        return line
    if not isinstance(values, dict):
        return line
    return ": ".join(str(values[name]) for name in ("message", "cause") if values.get(name))
