"""``/v1/models``: what may be called, whether or not a worker of it is up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from control_plane.contracts.errors import DropReason, NotFound
from control_plane.contracts.fleet import ModelView

OWNER = "inferdeck"


def list_models(models: Sequence[ModelView], created: int) -> bytes:
    return _json({"object": "list", "data": [_entry(model, created) for model in _unique(models).values()]})


def show_model(models: Sequence[ModelView], name: str, created: int) -> bytes:
    """Raises NotFound."""
    model = _unique(models).get(name)
    if model is None:
        raise NotFound("The model does not exist.", reason=DropReason.MODEL_NOT_FOUND, param="model")
    return _json(_entry(model, created))


def _unique(models: Sequence[ModelView]) -> dict[str, ModelView]:
    """Two pools may serve one model; it is listed once."""
    found: dict[str, ModelView] = {}
    for model in models:
        found.setdefault(model.name, model)
    return found


def _entry(model: ModelView, created: int) -> dict[str, Any]:
    entry: dict[str, Any] = {"id": model.name, "object": "model", "created": created, "owned_by": OWNER}
    if model.max_context:
        entry["max_model_len"] = model.max_context
    return entry


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
