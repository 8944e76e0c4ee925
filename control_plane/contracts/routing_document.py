"""The policy's part about routing as a document: see ``policy_document``.

::

    {"profile": "mine",
     "profiles": {"mine": {"picker": "max", "weights": {"inflight_tokens": 2.0, "queue_depth": 1.0}}},
     "models": {"smart": {"target": "smollm2-135m"}},
     "admission": {"busy": 0.7}}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from control_plane.contracts.admission_document import assign_admission, rules_document, rules_of
from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.model_routes_document import assign_route, routes_document, routes_of
from control_plane.contracts.profile_document import assign_profile, profiles_document, profiles_of
from control_plane.contracts.routing import Routing

ROUTING_FIELDS: Final = ("profile", "profiles", "models", "admission")


def routing_document(routing: Routing) -> dict[str, Any]:
    """What is not said is not in it."""
    document: dict[str, Any] = {"profile": routing.profile} if routing.profile else {}
    if routing.profiles:
        document["profiles"] = profiles_document(routing.profiles)
    if routing.models:
        document["models"] = routes_document(routing.models)
    if rules := rules_document(routing.admission):
        document["admission"] = rules
    return document


def routing_of(values: Mapping[str, Any]) -> Routing:
    """Raises InvalidRequest that names the first field that is wrong. ``values`` has known fields only."""
    routing = Routing(
        profile=values.get("profile", ""),
        profiles=profiles_of(values.get("profiles", {}), "routing.profiles"),
        models=routes_of(values.get("models", {}), "routing.models"),
        admission=rules_of(values.get("admission", {})),
    )
    if routing.profile not in ("", *routing.names):
        raise InvalidRequest(
            f"routing.profile: {routing.profile!r} is no profile; there are {', '.join(routing.names)}. One that is "
            "in use cannot be taken away",
            param="routing.profile",
            hint="inferdeck policy set routing.profile=none",
        )
    return routing


def assign_routing(table: dict[str, Any], path: str, field: str, text: str) -> None:
    """``routing.FIELD=TEXT`` done to the document; ``none`` takes it away. Raises InvalidRequest that names the
    field."""
    part, _, rest = field.partition(".")
    if part == "profiles" and rest:
        profiles: dict[str, Any] = table.setdefault("profiles", {})
        assign_profile(profiles, path, rest, text)
        return
    if part == "admission":
        assign_admission(table, rest, text)
        return
    if part == "models" and rest:
        assign_route(table.setdefault("models", {}), path, rest, text)
        return
    if field == "models" and text == "none":
        table.pop(field, None)
        return
    if field == "models":
        raise InvalidRequest(f"{path}: which route? For example routing.models.smart.target=MODEL", param=path)
    if field != "profile":
        known = "profile, profiles.NAME.weights.SCORER, profiles.NAME.picker, profiles.NAME.temperature"
        known += ", models.NAME.FIELD, admission.FIELD"
        raise InvalidRequest(f"{path}: unknown field {field!r}; there are {known}", param=path)
    if text == "none":
        table.pop(field, None)
    else:
        table[field] = text
