"""The settings in force: what a control plane runs with, whatever has become of its file since.

For people, and for whoever takes over what it leaves where it dies: nobody removes the file then.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from typing import Any

from control_plane import telemetry
from control_plane.contracts.worker_spec import start_ticks
from control_plane.settings import Home, Settings, SettingSource


def told(settings: Settings, sources: Sequence[SettingSource], arguments: Sequence[str] = ()) -> dict[str, Any]:
    """As ``python -m control_plane settings --json`` prints them, without passwords. ``arguments`` are those that
    changed what the file says, as they were given."""
    rows = [dataclasses.asdict(source) for source in sources]
    for row in rows:
        if isinstance(row["value"], str):
            row["value"] = telemetry.redact(row["value"])
    config = str(settings.path) if settings.path else None
    return {"config": config, "arguments": list(arguments), "settings": rows}


def write(home: Home, document: dict[str, Any]) -> None:
    """Where the console finds them; they say whose they are, so that nobody takes them for a later process's. Raises
    OSError."""
    mine = {"pid": os.getpid(), "start_ticks": start_ticks(os.getpid())}
    draft = home.settings.with_name(f".{home.settings.name}.{os.getpid()}")
    try:
        draft.touch(mode=0o600)
        draft.write_text(json.dumps(mine | document, indent=1))
        draft.replace(home.settings)
    finally:
        draft.unlink(missing_ok=True)
