"""``/v1/models``: what a key may call, whether or not a worker of it is up: models, and names that lead to them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from control_plane.contracts.errors import DropReason, NotFound
from control_plane.contracts.fleet import ModelView
from control_plane.contracts.model_routes import ModelRoutes

OWNER = "inferdeck"
SIMULATOR = "sim"
"""The engine of a pool that is simulated."""

Allows = Callable[[str], bool]


def list_models(models: Sequence[ModelView], routes: ModelRoutes, allows: Allows, created: int) -> bytes:
    """``allows``: whether a name may be called by itself; what follows from that is the routes' word."""
    return _json({"object": "list", "data": list(_entries(models, routes, allows, created).values())})


def show_model(models: Sequence[ModelView], routes: ModelRoutes, allows: Allows, name: str, created: int) -> bytes:
    """Raises NotFound, also for a name that may not be called."""
    entry = _entries(models, routes, allows, created).get(name)
    if entry is None:
        raise NotFound("The model does not exist.", reason=DropReason.MODEL_NOT_FOUND, param="model")
    return _json(entry)


def _entries(
    models: Sequence[ModelView], routes: ModelRoutes, allows: Allows, created: int
) -> Mapping[str, dict[str, Any]]:
    """Models first. Two pools may serve one; it is listed once. A route that takes a model's name stands for it."""
    contexts: dict[str, int] = {}
    for model in models:
        contexts.setdefault(model.name, model.max_context)
    simulated = {model.name for model in models if model.engine == SIMULATOR}
    found = {
        name: _entry(name, OWNER, context, created, simulated=name in simulated)
        for name, context in contexts.items()
        if routes.allowed(name, allows)
    }
    for name, route in sorted(routes.leading().items()):
        if routes.allowed(name, allows):
            ends = routes.ends(name)
            context = min((contexts[end] for end in ends if contexts.get(end)), default=0)
            partly = not simulated.isdisjoint(ends)
            found[name] = _entry(name, f"{OWNER}-{route.kind}", context, created, simulated=partly)
    return found


def _entry(name: str, owner: str, context: int, created: int, *, simulated: bool) -> dict[str, Any]:
    """``simulated`` is told where it is so: whoever measures here must know that no engine was measured."""
    entry: dict[str, Any] = {"id": name, "object": "model", "created": created, "owned_by": owner}
    if context:
        entry["max_model_len"] = context
    if simulated:
        entry["simulated"] = True
    return entry


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
