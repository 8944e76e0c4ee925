"""Engines by name. An engine's module, and what it needs, is imported only when a worker runs it."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from control_plane.contracts.errors import SettingsError
from control_plane.contracts.worker_spec import WorkerSpec
from workers.engine.base import Engine

_ENGINES = {
    "vllm": ("workers.engine.vllm_engine", "VllmEngine"),
    "sim": ("workers.engine.sim.engine", "SimEngine"),
    "scripted": ("workers.engine.scripted", "ScriptedEngine"),
}


def make_engine(spec: WorkerSpec) -> Engine:
    """The engine that the spec names. Raises SettingsError for a name that none has."""
    if spec.engine not in _ENGINES:
        raise SettingsError(f"no engine {spec.engine!r}; there are {', '.join(sorted(_ENGINES))}", param="engine")
    module, name = _ENGINES[spec.engine]
    return cast(Engine, getattr(import_module(module), name)(spec))
