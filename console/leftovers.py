"""What still runs of a home beside a control plane, or without one. Read only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from control_plane.contracts.home import Home
from control_plane.contracts.worker_spec import alive, start_ticks


@dataclass(frozen=True, slots=True)
class Leftover:
    """A process that belongs to a home: known by its record, so that a reused pid is never taken for it.

    ``url``: where a gateway listens."""

    name: str
    pid: int
    ticks: int
    engine_pids: tuple[tuple[int, int], ...] = ()
    record: Path | None = None
    url: str = ""

    @property
    def alive(self) -> bool:
        return alive(self.pid, self.ticks)


def leftovers(home: Home, control_plane: int = 0) -> list[Leftover]:
    """The live processes that the records and command lines in a home's folder speak of, but for the control plane's
    pid."""
    found: dict[int, Leftover] = {}
    for kind, folder in (("gateway", home.gateways), ("router", home.routers), ("worker", home.workers)):
        for path in sorted(folder.glob("*.json")):
            if not path.name.endswith(".spec.json") and (entry := _recorded(path, kind)) is not None and entry.alive:
                found[entry.pid] = entry
    for entry in _by_command_line(home, control_plane):
        found.setdefault(entry.pid, entry)
    return list(found.values())


def control_plane_of(home: Home) -> Leftover | None:
    """The home's control plane by its command line: it lives, whatever its files say."""
    for pid, module, words in _command_lines():
        if module == "control_plane" and "serve" in words and str(home.root) in words and (ticks := start_ticks(pid)):
            return Leftover("control-plane", pid, ticks)
    return None


def _recorded(path: Path, kind: str) -> Leftover | None:
    try:
        values = json.loads(path.read_text())
        engines = tuple((int(pid), start_ticks(int(pid))) for pid in values.get("engine_pids", ()))
        return Leftover(
            f"{kind}/{path.stem}",
            int(values["pid"]),
            int(values["start_ticks"]),
            engines,
            path,
            str(values.get("url", "")),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _by_command_line(home: Home, control_plane: int) -> Iterator[Leftover]:
    """Gateways, routers and workers that have no record yet. An exact argument names the home, or a spec inside it."""
    root = str(home.root)
    for pid, module, words in _command_lines():
        ours = (module == "control_plane" and ("gateway" in words or "router" in words) and root in words) or (
            module == "workers" and any(word.startswith(f"{home.workers}/") for word in words)
        )
        if ours and (ticks := start_ticks(pid)) and pid != control_plane:
            yield Leftover(f"process {pid}", pid, ticks)


def _command_lines() -> Iterator[tuple[int, str, list[str]]]:
    """Of each process: its pid, the module that it runs, and its words."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            words = (entry / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        yield int(entry.name), words[words.index("-m") + 1] if "-m" in words[:-1] else "", words
