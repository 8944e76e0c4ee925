"""``/v1/models``: what a key may call, whether or not a worker of it is up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from control_plane.contracts.errors import DropReason, Forbidden, NotFound
from control_plane.contracts.fleet import ModelView
from control_plane.contracts.grant import Grant

OWNER = "inferdeck"


def list_models(models: Sequence[ModelView], grant: Grant, created: int) -> bytes:
    return _json({"object": "list", "data": [_entry(model, created) for model in _allowed(models, grant).values()]})


def show_model(models: Sequence[ModelView], grant: Grant, name: str, created: int) -> bytes:
    """Raises NotFound, also for a model that the key may not call."""
    model = _allowed(models, grant).get(name)
    if model is None:
        raise NotFound("The model does not exist.", reason=DropReason.MODEL_NOT_FOUND, param="model")
    return _json(_entry(model, created))


def check_model(grant: Grant, name: str) -> None:
    """Raises Forbidden for a model that the key may not call, whether or not there is one of this name."""
    if not grant.allows(name):
        raise Forbidden("This API key may not use this model. GET /v1/models lists those it may.", param="model")


def _allowed(models: Sequence[ModelView], grant: Grant) -> dict[str, ModelView]:
    """Two pools may serve one model; it is listed once."""
    found: dict[str, ModelView] = {}
    for model in models:
        if grant.allows(model.name):
            found.setdefault(model.name, model)
    return found


def _entry(model: ModelView, created: int) -> dict[str, Any]:
    entry: dict[str, Any] = {"id": model.name, "object": "model", "created": created, "owned_by": OWNER}
    if model.max_context:
        entry["max_model_len"] = model.max_context
    return entry


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
