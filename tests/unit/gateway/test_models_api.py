"""What the list of models says of each."""

from __future__ import annotations

import json

from control_plane.contracts.fleet import ModelView
from control_plane.contracts.model_routes import ModelRoute, ModelRoutes
from control_plane.gateway.models_api import list_models

MODELS = (ModelView("real", "p1", engine="vllm"), ModelView("made-up", "p2", engine="sim"))


def test_a_simulated_model_and_a_name_that_may_lead_to_one_say_so() -> None:
    routes = ModelRoutes({"both": ModelRoute(target="real", fallback=("made-up",)), "mine": ModelRoute(target="real")})
    told = json.loads(list_models(MODELS, routes, lambda name: True, 1))["data"]
    assert {entry["id"]: entry.get("simulated") for entry in told} == {
        "real": None,
        "made-up": True,
        "both": True,
        "mine": None,
    }
