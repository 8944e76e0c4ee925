"""The home, its keys, what runs in it, and the models that are ready."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from console import figures
from console.doctor.finding import Finding, fail, ok, warn
from console.home import Home, shown_path
from control_plane.contracts.model_source import BUILTIN, downloaded, is_folder, offline_fault, source_fault
from control_plane.contracts.paths import expanded


def home_folder(home: Home) -> Finding:
    path = home.path
    if not path.exists():
        parent = next((folder for folder in path.parents if folder.exists()), Path("/"))
        if not os.access(parent, os.W_OK):
            return fail("home", f"{home.shown} cannot be made in {shown_path(parent)}", "choose one with --home")
        return ok("home", f"{home.shown}, made at the first start")
    if not path.is_dir() or not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        return fail("home", f"{home.shown} is no folder that you can write to", "choose another one with --home")
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        return warn("home", f"{home.shown} can be read by others (mode {mode:04o})", f"chmod 700 {home.shown}")
    return ok("home", f"{home.shown}, private")


def keys(home: Home) -> Finding:
    found = [path for path in (home.api_key_path, home.operator_key_path) if path.exists()]
    if not found:
        return ok("keys", "made at the first start")
    open_ones = [path for path in found if stat.S_IMODE(path.stat().st_mode) & 0o077]
    if open_ones:
        names = " ".join(shown_path(path) for path in open_ones)
        return warn("keys", f"can be read by others: {names}", f"chmod 600 {names}")
    return ok("keys", ", ".join(shown_path(path) for path in found))


def platform(home: Home) -> Finding:
    """What runs in the home."""
    state = home.running()
    if state is not None:
        return ok(
            "platform", f"up, control plane pid {state.pid}, gateway {', '.join(state.gateway_urls) or 'not there yet'}"
        )
    left = home.leftovers()
    if left:
        names = ", ".join(f"{entry.name} (pid {entry.pid})" for entry in left)
        return warn(
            "platform",
            f"the control plane is gone, still running: {names}",
            f"{home.up_command()} takes them over, {home.up_command('down')} ends them",
        )
    return ok("platform", "not running")


def model(pool: dict[str, Any], cache: Path) -> Finding:
    """Whether a pool's model is at hand."""
    source, name = str(pool.get("source", "")), f"model {pool.get('model', '')}"
    if pool.get("engine") != "vllm":
        return ok(name, f"{pool.get('engine')} engine, needs none")
    if fault := source_fault(source) or offline_fault(source, bool(pool.get("offline"))):
        return fail(name, fault.message, fault.hint or "set source of the pool to a Hugging Face folder")
    if source.startswith(BUILTIN):
        return _builtin(name, source.removeprefix(BUILTIN), cache)
    if is_folder(source):
        return ok(name, f"in {shown_path(expanded(source))}")
    if downloaded(source):
        return ok(name, f"{source}, downloaded")
    return warn(name, f"{source} is downloaded at the first start", "needs the network then")


def _builtin(name: str, builtin: str, cache: Path) -> Finding:
    ready = [folder for folder in sorted((cache / "models").glob(f"{builtin}-*")) if (folder / "config.json").is_file()]
    if not ready:
        return ok(name, f"converted at the first start, into {shown_path(cache)}")
    bytes_taken = sum(path.stat().st_size for path in ready[-1].rglob("*") if path.is_file())
    return ok(name, f"{shown_path(ready[-1])}, {figures.size(bytes_taken)}")
