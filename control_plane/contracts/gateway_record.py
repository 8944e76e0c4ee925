"""How a control plane and its gateways and routers find each other and end: a record file each, and signals."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any, Final

from control_plane.contracts.worker_spec import start_ticks

FINISH: Final = signal.SIGUSR1
"""Tells a gateway or a router to take nothing new and to end when its calls have."""

END_NOW: Final = signal.SIGINT
"""Tells a gateway or a router to end its calls and itself."""


def read_record(path: Path) -> dict[str, Any]:
    """A gateway's or router's record; empty where there is none that can be read."""
    try:
        values = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def write_record(path: Path, pid: int, url: str, certificate: str = "", *, fronts: bool = False) -> None:
    """Who a gateway or a router is, and where it listens once it does. Of a gateway also: with which certificate, where
    that is a file of others, and whether it ``fronts`` routers that are processes of their own."""
    record = {
        "id": path.stem,
        "pid": pid,
        "start_ticks": start_ticks(pid),
        "url": url,
        "certificate": certificate,
        "fronts": fronts,
    }
    draft = path.with_name(f".{path.name}.{pid}")
    try:
        draft.write_text(json.dumps(record))
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
