"""The settings as the control plane reads them, asked of it: the console never parses them itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from console.earlier import Earlier, earlier
from console.home import Home, State


@dataclass(frozen=True, slots=True)
class Setting:
    key: str
    value: Any
    source: str


@dataclass(frozen=True, slots=True)
class Settings:
    """``error`` and ``hint`` are what the control plane says of settings that it refuses; then there are none.

    ``running``: they are those that a control plane runs with, ``edited`` what its file says otherwise by now."""

    path: str
    settings: tuple[Setting, ...] = ()
    error: str = ""
    hint: str = ""
    running: bool = False
    edited: tuple[str, ...] = ()

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
    """Of the file that is named, else those that the home's control plane runs with, else what it would run with."""
    if config is not None:
        return _of_file(home, config)
    if (state := home.running()) is not None:
        return _in_force(home, state)
    before = earlier(home) if home.leftovers() else None
    return _of_file(home, before.config, before.arguments) if before is not None else _of_file(home, None)


def asked_beside(home: Home, state: State, config: Path | None, arguments: Sequence[str]) -> Settings:
    """Settings that are asked for beside a control plane that runs: ``edited`` is what they say otherwise than it began
    with. What is not named, the file or the arguments, is its own."""
    before = earlier(home) or Earlier()
    asked = _of_file(home, config or before.config, arguments or before.arguments)
    begun = _begun_with(home, state)
    if asked.error or begun is None:
        return asked
    return replace(asked, edited=_differing(begun.settings, asked.settings, ("home", "cache")))


def retired_by(home: Home, config: Path | None, arguments: Sequence[str]) -> list[str]:
    """The workers of an earlier control plane that one with these settings would end. None for settings that are
    refused: it would end before."""
    try:
        ran = _ask(home, config, ["--retires", *arguments])
        return [str(name) for name in json.loads(ran.stdout)["retires"]] if ran.returncode == 0 else []
    except (subprocess.TimeoutExpired, ValueError, KeyError, TypeError):
        return []


def _in_force(home: Home, state: State) -> Settings:
    """What the control plane says that it began with. One that says nothing has its file read as it is now."""
    now = _of_file(home, Path(state.config) if state.config else None)
    begun = _begun_with(home, state)
    if begun is None:
        return replace(now, running=True)
    if now.error:
        return replace(begun, edited=(now.error,))
    # What an option or a variable chose says nothing of the file.
    simulated = any(row.source.startswith("--engine") for row in begun.settings)
    skipped = ("home", "cache", *(("pool[",) if simulated else ()))
    edited = _differing(begun.settings, now.settings, skipped)
    return replace(begun, edited=edited if begun.path == now.path else ())


def _begun_with(home: Home, state: State) -> Settings | None:
    """What this control plane wrote down; None where it is not to be read."""
    try:
        values = json.loads(home.settings_path.read_text())
        if (values["pid"], values["start_ticks"]) != (state.pid, state.start_ticks):
            return None
        return Settings(values["config"] or "", _rows(values), running=True)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _differing(one: Sequence[Setting], other: Sequence[Setting], skipped: tuple[str, ...]) -> tuple[str, ...]:
    pairs, others = ({row.key: row.value for row in each if not row.key.startswith(skipped)} for each in (one, other))
    return tuple(key for key in dict.fromkeys([*pairs, *others]) if pairs.get(key) != others.get(key))


def _rows(values: Any) -> tuple[Setting, ...]:
    return tuple(Setting(row["key"], row["value"], row["source"]) for row in values["settings"])


def _ask(home: Home, config: Path | None, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Raises subprocess.TimeoutExpired."""
    command = [sys.executable, "-m", "control_plane", "settings", "--json", *arguments]
    if home.path != Home.find().path:  # else it finds the same one, and can say who chose it
        command += ["--home", str(home.path)]
    if config is not None:
        command += ["--config", str(config.absolute())]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "PYTHONSAFEPATH": "1"}
    )


def _of_file(home: Home, config: Path | None, arguments: Sequence[str] = ()) -> Settings:
    try:
        ran = _ask(home, config, arguments)
        if ran.returncode == 0:
            values = json.loads(ran.stdout)
            return Settings(values["config"] or "", _rows(values))
        lines = ran.stderr.splitlines()
    except (subprocess.TimeoutExpired, ValueError, KeyError, TypeError) as error:
        lines = [f"error: the settings cannot be read: {type(error).__name__}"]
    told = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")] or lines[-1:]
    hint = next((line.removeprefix("hint: ") for line in lines if line.startswith("hint: ")), "")
    return Settings(str(config or ""), error="; ".join(told) or "the settings cannot be read", hint=hint)
