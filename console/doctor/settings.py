"""The settings as the control plane reads them, asked of it: the console never parses them itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from console.home import Home


@dataclass(frozen=True, slots=True)
class Setting:
    key: str
    value: Any
    source: str


@dataclass(frozen=True, slots=True)
class Settings:
    """``error`` and ``hint`` are what the control plane says of settings that it refuses; then there are none."""

    path: str
    settings: tuple[Setting, ...] = ()
    error: str = ""
    hint: str = ""

    def get(self, key: str, otherwise: Any = None) -> Any:
        return next((setting.value for setting in self.settings if setting.key == key), otherwise)

    @property
    def pools(self) -> list[dict[str, Any]]:
        """Each pool's settings by name."""
        pools: dict[str, dict[str, Any]] = {}
        for setting in self.settings:
            pool, dot, name = setting.key.partition("].")
            if dot and pool.startswith("pool["):
                pools.setdefault(pool, {})[name] = setting.value
        return list(pools.values())


def read_settings(home: Home, config: Path | None) -> Settings:
    command = [sys.executable, "-m", "control_plane", "settings", "--json"]
    if home.path != Home.find().path:  # else it finds the same one, and can say who chose it
        command += ["--home", str(home.path)]
    if config is not None:
        command += ["--config", str(config.absolute())]
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "PYTHONSAFEPATH": "1"}
        )
        if ran.returncode == 0:
            values = json.loads(ran.stdout)
            rows = tuple(Setting(row["key"], row["value"], row["source"]) for row in values["settings"])
            return Settings(values["config"] or "", rows)
        lines = ran.stderr.splitlines()
    except (subprocess.TimeoutExpired, ValueError, KeyError, TypeError) as error:
        lines = [f"error: the settings cannot be read: {type(error).__name__}"]
    told = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")] or lines[-1:]
    hint = next((line.removeprefix("hint: ") for line in lines if line.startswith("hint: ")), "")
    return Settings(str(config or ""), error="; ".join(told) or "the settings cannot be read", hint=hint)
