"""The policy's parts about admission as a document: see ``policy_document``.

::

    {"tiers": {"free": {"at_busy": "throttle", "at_reject": "refuse", "min_share": 0.05}},
     "routing": {"admission": {"busy": 0.8, "reject": 0.9, "queue_limit": 1024}}}

What a tier does not say follows from its priority: above 0 it is dispatched when workers are busy, below 0 it is
throttled and refused, and else it waits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any, Final, get_args

from control_plane.contracts.admission import AdmissionRules, AtBusy, AtReject
from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.whole_number import whole

SERVICE_FIELDS: Final = ("at_busy", "at_reject", "min_share")
RULE_FIELDS: Final = tuple(field.name for field in fields(AdmissionRules))

_RANGES: Final[dict[str, tuple[float, float]]] = {
    "watch": (0.01, 10.0),
    "busy": (0.01, 10.0),
    "reject": (0.01, 10.0),
    "hysteresis": (0.0, 0.5),
    "kv_limit": (0.01, 1.0),
    "queue_share": (0.01, 1.0),
}
_DEFAULT: Final = AdmissionRules()
_WHOLE: Final = {"engine_queue": (0, 10**6), "queue_limit": (0, 10**5)}


def service_of(values: Mapping[str, Any], priority: int, path: str) -> tuple[AtBusy, AtReject, float]:
    """``at_busy``, ``at_reject`` and ``min_share`` of a tier. Raises InvalidRequest that names the field."""
    at_busy: AtBusy = values.get("at_busy", "dispatch" if priority > 0 else "throttle" if priority < 0 else "queue")
    if at_busy not in get_args(AtBusy):
        raise _wrong(f"{path}.at_busy", _choice(at_busy, get_args(AtBusy)))
    at_reject: AtReject = values.get("at_reject", "refuse" if priority < 0 else "queue")
    if at_reject not in get_args(AtReject):
        raise _wrong(f"{path}.at_reject", _choice(at_reject, get_args(AtReject)))
    return at_busy, at_reject, _number(values.get("min_share", 0.0), f"{path}.min_share", 0.0, 1.0)


def check_shares(shares: Mapping[str, float]) -> None:
    """Raise InvalidRequest where tiers, by name, are promised more than there is."""
    if math.fsum(shares.values()) > 1.0 + 1e-9:
        name = max(shares, key=lambda tier: shares[tier])
        raise _wrong(f"tiers.{name}.min_share", "the minimum shares of all tiers together are more than 1")


def rules_document(rules: AdmissionRules) -> dict[str, Any]:
    """What is not as it comes."""
    return {name: value for name in RULE_FIELDS if (value := getattr(rules, name)) != getattr(_DEFAULT, name)}


def every_rule(rules: AdmissionRules) -> dict[str, Any]:
    return {name: getattr(rules, name) for name in RULE_FIELDS}


def rules_of(document: Any) -> AdmissionRules:
    """Raises InvalidRequest that names the first field that is wrong."""
    path = "routing.admission"
    if not isinstance(document, dict):
        raise _wrong(path, "a table of fields is needed")
    for name in document:
        if name not in RULE_FIELDS:
            near = get_close_matches(str(name), RULE_FIELDS, 1, 0.6)
            meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(RULE_FIELDS)}"
            raise _wrong(f"{path}.{name}", f"unknown field; {meant}")
    found: dict[str, Any] = {}
    for name, value in document.items():
        if name in _WHOLE:
            found[name] = whole(value, f"{path}.{name}", *_WHOLE[name])
        else:
            found[name] = _number(value, f"{path}.{name}", *_RANGES[name])
    rules = AdmissionRules(**found)
    if not rules.watch <= rules.busy <= rules.reject:
        name = next(name for name in ("busy", "reject", "watch") if name in found)
        raise _wrong(f"{path}.{name}", "watch, busy and reject have to rise in this order")
    return rules


def assign_admission(routing: dict[str, Any], field: str, text: str) -> None:
    """``routing.admission.FIELD=TEXT`` done to the routing's document; "none" leaves the field, or without one all of
    them, as it comes."""
    path = f"routing.admission.{field}" if field else "routing.admission"
    if not field and text != "none":
        raise _wrong(path, f"which field of it? There are {', '.join(RULE_FIELDS)}; or {path}=none: as it comes")
    if not field:
        routing.pop("admission", None)
    elif field not in RULE_FIELDS:
        raise _wrong(path, f"unknown field {field!r}; there are {', '.join(RULE_FIELDS)}")
    elif text == "none":
        routing.setdefault("admission", {}).pop(field, None)
    else:
        routing.setdefault("admission", {})[field] = typed(field, text, path)


def typed(field: str, text: str, path: str) -> Any:
    """A field's value as it is typed."""
    if field in ("at_busy", "at_reject"):
        return text
    try:
        number = float(text.replace("_", ""))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise _wrong(path, f"{text!r} is no number")
    return int(number) if field in _WHOLE and number == int(number) else number


def _number(value: Any, path: str, least: float, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise _wrong(path, f"a number from {least:g} to {most:g} is needed")
    return float(value)


def _choice(value: Any, known: tuple[str, ...]) -> str:
    return f"{value!r} is none of {', '.join(known)}"


def _wrong(path: str, message: str) -> InvalidRequest:
    return InvalidRequest(f"{path}: {message}", param=path)
