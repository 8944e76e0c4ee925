"""A TOML file as typed settings; everything that is wrong with it is told at once, by file and line."""

from __future__ import annotations

import dataclasses
import difflib
import os
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from control_plane.contracts.addresses import MutualTls
from control_plane.contracts.errors import SettingsError
from control_plane.contracts.home import Home
from control_plane.contracts.paths import expanded
from control_plane.contracts.toml_places import KeyPath, Place, place_of
from control_plane.contracts.toml_text import TomlWrong, read_toml
from control_plane.settings.model import (
    BUILTIN_SOURCE,
    ApiSettings,
    GatewaySettings,
    Gpus,
    LimitSettings,
    PoolSettings,
    RouterSettings,
    SecuritySettings,
    Settings,
    SettingSource,
    StoreSettings,
    TelemetrySettings,
)
from control_plane.settings.rules import check
from control_plane.settings.simulated import ENGINE, simulated_pool
from control_plane.settings.size import parse_size

T = TypeVar("T")

_SECTIONS: dict[str, type[Any]] = {
    "gateway": GatewaySettings,
    "api": ApiSettings,
    "security": SecuritySettings,
    "store": StoreSettings,
    "router": RouterSettings,
    "limits": LimitSettings,
    "telemetry": TelemetrySettings,
}


def load_settings(path: Path | None, home: Home) -> Settings:
    """The settings of a file; without one, of ``config.toml`` in the home; without that, the defaults.

    Raises SettingsError whose message has one line per problem: ``FILE:LINE: KEY: what is wrong``.
    """
    return load_with_sources(path, home)[0]


def load_with_sources(path: Path | None, home: Home) -> tuple[Settings, tuple[SettingSource, ...]]:
    """The settings, and who chose each of them."""
    own = (
        SettingSource("home", str(home.root), home.source),
        SettingSource("cache", str(home.cache), home.cache_source),
    )
    if path is None and os.path.lexists(home.config):  # a link that leads nowhere is not "no settings"
        path = home.config
    if path is None:
        settings = Settings()
        return settings, own + _sources(settings, {}, "", {})
    document = _Document.read(path)
    settings = document.settings()
    if document.problems:
        lines = sorted(document.problems, key=lambda problem: problem[1])
        text = "\n".join(f"{path}:{line}: {key}: {message}" for key, line, message in lines)
        raise SettingsError(text, param=lines[0][0], hint=f"edit {path}")
    return settings, own + _sources(settings, document.tree, str(path), document.places)


@dataclass(slots=True)
class _Document:
    path: Path
    tree: dict[str, Any]
    places: dict[KeyPath, Place]
    problems: list[tuple[str, int, str]] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> _Document:
        if path.exists() and not (path.is_file() or path.is_dir()):  # reading a pipe would wait for a writer
            raise SettingsError(f"{path}: cannot read the settings: not a file", param="config")
        try:
            tree, places = read_toml(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise SettingsError(f"{path}: cannot read the settings: {error.strerror}", param="config") from None
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            raise SettingsError(f"{path}:{line}: not a UTF-8 text", param="config", hint=f"edit {path}") from None
        except TomlWrong as error:
            raise SettingsError(
                f"{path}:{error.place.line}: not valid TOML: {error.what}", param="config", hint=f"edit {path}"
            ) from None
        return cls(path, tree, places)

    def blame(self, path: KeyPath, message: str) -> None:
        self.problems.append((dotted(path), place_of(self.places, path).line, message))

    def settings(self) -> Settings:
        known = [*_SECTIONS, "pool"]
        for name in self.tree:
            if name not in known:
                self.blame((name,), f"unknown key{_nearest(name, known)}")
        values: dict[str, Any] = {name: self._table((name,), cls) for name, cls in _SECTIONS.items()}
        values["gateway"] = self._with_paths(values["gateway"])
        pools = self._pools()
        settings = Settings(**values, pools=pools, path=self.path, written=self._written(pools))
        blamed = {key for key, _, _ in self.problems}
        for path, message in check(settings):
            if dotted(path) not in blamed:
                self.blame(path, message)
        return settings

    def _written(self, pools: tuple[PoolSettings, ...]) -> dict[str, dict[str, str]]:
        """See ``Settings``."""
        found: dict[str, dict[str, str]] = {}
        for index, pool in enumerate(pools if "pool" in self.tree else ()):
            own = [(path[2:], place.line) for path, place in self.places.items() if path[:2] == ("pool", index)]
            found[pool.name] = {dotted(path): f"{self.path}:{line}" for path, line in own}
        return found

    def _with_paths(self, gateway: GatewaySettings) -> GatewaySettings:
        """The files of a certificate; where their paths are relative, they count from this file's folder."""

        def absolute(name: str) -> str:
            return str(self.path.absolute().parent / expanded(name)) if name else ""

        return dataclasses.replace(gateway, tls_cert=absolute(gateway.tls_cert), tls_key=absolute(gateway.tls_key))

    def _pools(self) -> tuple[PoolSettings, ...]:
        if "pool" not in self.tree:
            return Settings().pools
        raw = self.tree["pool"]
        if not isinstance(raw, list) or not all(isinstance(entry, dict) for entry in raw):
            self.blame(("pool",), "pools are written as [[pool]]")
            return ()
        return tuple(self._pool(("pool", index), entry) for index, entry in enumerate(raw))

    def _pool(self, path: KeyPath, raw: dict[str, Any]) -> PoolSettings:
        pool = self._table(path, PoolSettings)
        if pool.engine == ENGINE and not self.problems:
            return self._simulated(pool, raw)
        derived: dict[str, Any] = {}
        if pool.source != BUILTIN_SOURCE and "model" not in raw:
            derived["model"] = PurePosixPath(pool.source.rstrip("/")).name.removeprefix("builtin:")
        if "name" not in raw and (pool.source != BUILTIN_SOURCE or "model" in raw):
            derived["name"] = _pool_name(derived.get("model", pool.model))
        given = pool.engine_args if "engine_args" in raw else {}
        derived["engine_args"] = given if pool.engine != "vllm" or pool.gpus else PoolSettings().engine_args | given
        if pool.gpus:
            if "kv_memory" not in raw:
                derived["kv_memory"] = 0
            if "max_context" not in raw:
                derived["max_context"] = 0
        return dataclasses.replace(pool, **derived)

    def _simulated(self, pool: PoolSettings, raw: dict[str, Any]) -> PoolSettings:
        """What nothing is said of follows from the profile; the path of a profile counts from the file's folder."""
        arguments = dict(pool.engine_args if "engine_args" in raw else {})
        profile = arguments.get("profile")
        if isinstance(profile, str) and profile.endswith(".toml"):
            arguments["profile"] = str(self.path.absolute().parent / profile)
        made = simulated_pool(arguments)
        given = {name: getattr(pool, name) for name in raw if name != "engine_args"}
        name = given.get("name") or _pool_name(given.get("model", made.model))
        return dataclasses.replace(made, **{**given, "name": name})

    def _table(self, path: KeyPath, cls: type[T]) -> T:
        raw: Any = self.tree
        for part in path:
            raw = raw.get(part, {}) if isinstance(raw, dict) else raw[part]
        if not isinstance(raw, dict):
            self.blame(path, f"a table is needed: [{dotted(path)}]")
            return cls()
        hints = typing.get_type_hints(cls)
        values: dict[str, Any] = {}
        for name, value in raw.items():
            if name not in hints:
                self.blame((*path, name), f"unknown key{_nearest(name, hints)}")
                continue
            try:
                values[name] = _reader(name, hints[name])(value)
            except ValueError as error:
                self.blame((*path, name), str(error))
        return cls(**values)


def dotted(path: KeyPath) -> str:
    """A key path as people write it: pool[0].name."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _nearest(name: str, known: typing.Iterable[str]) -> str:
    options = list(known)
    close = difflib.get_close_matches(name, options, n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else f"; known are {', '.join(options)}"


def _pool_name(model: str) -> str:
    kept = "".join(char if char.isalnum() and char.isascii() else "-" for char in model.lower())
    return kept.strip("-") or "pool"


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError('a text in quotes is needed, like "this"')
    return value


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("a whole number is needed")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("a number is needed")
    try:
        return float(value)
    except OverflowError:
        raise ValueError("a number that is not that large is needed") from None


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false is needed")
    return value


def _arguments(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("a table is needed: [pool.engine_args]")
    return value


def _gpus(value: Any) -> Gpus:
    if value == "auto":
        return "auto"
    if not isinstance(value, list) or any(isinstance(each, bool) or not isinstance(each, int) for each in value):
        raise ValueError('device indexes are needed, like [0, 1], or "auto"')
    return tuple(value)


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError('a list of texts is needed, like ["this"]')
    return tuple(value)


def _auto_or_flag(value: Any) -> MutualTls:
    if value != "auto" and not isinstance(value, bool):
        raise ValueError('"auto", true or false is needed')
    return "auto" if value == "auto" else bool(value)


def _reader(name: str, hint: Any) -> Callable[[Any], Any]:
    if name == "kv_memory":
        return parse_size
    if name == "gpus":
        return _gpus
    if name == "engine_args":
        return _arguments
    if name == "cors_origins":
        return _texts
    if name == "mutual_tls":
        return _auto_or_flag
    return {str: _text, int: _whole, float: _number, bool: _flag}[hint]


def sources_after(
    settings: Settings, sources: typing.Iterable[SettingSource], chooser: str
) -> tuple[SettingSource, ...]:
    """The sources once an option has changed the pools: what has another value now was chosen by ``chooser``."""
    before = {source.key: source for source in sources}
    found = [source for key, source in before.items() if not key.startswith("pool[")]
    for index, pool in enumerate(settings.pools):
        for each in dataclasses.fields(pool):
            key, value = dotted(("pool", index, each.name)), getattr(pool, each.name)
            old = before.get(key)
            found.append(old if old is not None and old.value == value else SettingSource(key, value, chooser))
    return tuple(found)


def _sources(
    settings: Settings, tree: dict[str, Any], file: str, places: dict[KeyPath, Place]
) -> tuple[SettingSource, ...]:
    found: list[SettingSource] = []

    def add(path: KeyPath, raw: Any, value: Any) -> None:
        given = isinstance(raw, dict) and path[-1] in raw
        source = f"{file}:{place_of(places, path).line}" if given else "default"
        found.append(SettingSource(dotted(path), value, source))

    for section in _SECTIONS:
        table = getattr(settings, section)
        for each in dataclasses.fields(table):
            add((section, each.name), tree.get(section), getattr(table, each.name))
    pools = tree.get("pool", [{} for _ in settings.pools])
    for index, pool in enumerate(settings.pools):
        for each in dataclasses.fields(pool):
            add(("pool", index, each.name), pools[index], getattr(pool, each.name))
    return tuple(found)
