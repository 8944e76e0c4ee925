"""The names of the policy that lead to models, shown among the models. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from control_plane.contracts.fleet import ModelView
from control_plane.contracts.model_routes import ModelRoute, ModelRoutes


def with_routes(models: tuple[ModelView, ...], routes: Mapping[str, ModelRoute]) -> tuple[ModelView, ...]:
    """The models with what they fall back to, then the names that lead to them. A name's ready workers are those of
    every model that it can end at, its context is the shortest of them."""
    if not routes:
        return models
    by_name = {model.name: model for model in models}
    in_force = ModelRoutes(routes).among(by_name)
    views = [replace(model, fallback=_fallback(in_force, model.name)) for model in models]
    for name, route in sorted(in_force.leading().items()):
        ends = [by_name[end] for end in in_force.ends(name) if end in by_name]
        views.append(
            ModelView(
                name=name,
                pool="",
                max_context=min((end.max_context for end in ends if end.max_context), default=0),
                ready_workers=sum(end.ready_workers for end in ends),
                kind=route.kind,
                leads_to=route.about,
                targets=route.targets,
                fallback=route.fallback,
            )
        )
    return tuple(views)


def _fallback(routes: ModelRoutes, name: str) -> tuple[str, ...]:
    """Of the model itself: a route that takes its name has its own."""
    route = routes.get(name)
    return route.fallback if route is not None and not route.kind else ()
