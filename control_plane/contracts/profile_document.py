"""Operators' own routing profiles as a document: see ``routing_document``.

::

    {"mine": {"picker": "softmax", "temperature": 0.1, "weights": {"inflight_tokens": 2.0, "queue_depth": 1.0}}}
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.routing import (
    BUILT_IN,
    DEFAULT_TEMPERATURE,
    PICKERS,
    SCORERS,
    RoutingProfile,
)

PROFILE_FIELDS: Final = ("weights", "picker", "temperature")
MOST_PROFILES: Final = 64
LARGEST_WEIGHT: Final = 1000.0
LEAST_TEMPERATURE: Final = 0.001
LARGEST_TEMPERATURE: Final = 100.0

_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_-]{0,62}[A-Za-z0-9])?")
_NONE: Final = "none"


def profiles_document(profiles: Mapping[str, RoutingProfile]) -> dict[str, Any]:
    """By name; weights in the order of SCORERS."""
    return {name: profile_document(profile) for name, profile in sorted(profiles.items())}


def profile_document(profile: RoutingProfile) -> dict[str, Any]:
    weights = {name: profile.weights[name] for name in SCORERS if name in profile.weights}
    temperature = {"temperature": profile.temperature} if profile.picker == "softmax" else {}
    return {"picker": profile.picker, **temperature, "weights": weights}


def profiles_of(document: Any, path: str) -> dict[str, RoutingProfile]:
    """Raises InvalidRequest that names the first field that is wrong."""
    if not isinstance(document, dict):
        raise _wrong(path, "a table of profiles by name is needed")
    if len(document) > MOST_PROFILES:
        raise _wrong(path, f"at most {MOST_PROFILES} profiles")
    found = {}
    for name, values in document.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise _wrong(path, f"{name!r} is no profile's name: letters, digits and inner _ -, at most 64")
        if name in BUILT_IN:
            raise _wrong(f"{path}.{name}", "comes with the program and cannot be changed; take another name")
        found[name] = profile_of(values, f"{path}.{name}")
    return found


def profile_of(values: Any, path: str) -> RoutingProfile:
    """Raises InvalidRequest that names the first field that is wrong."""
    if not isinstance(values, dict):
        raise _wrong(path, "a table of fields is needed")
    for name in values:
        if name not in PROFILE_FIELDS:
            raise _wrong(f"{path}.{name}", f"unknown field{_meant(str(name), PROFILE_FIELDS)}")
    picker = values.get("picker", "max")
    if picker not in PICKERS:
        raise _wrong(f"{path}.picker", f"{picker!r} is no picker; there are {', '.join(PICKERS)}")
    temperature = values.get("temperature")
    if picker != "softmax" and temperature is not None:
        raise _wrong(f"{path}.temperature", f"only the picker softmax has one, and this one is {picker}")
    return RoutingProfile(
        weights=weights_of(values.get("weights", {}), f"{path}.weights"),
        picker=picker,
        temperature=_temperature(temperature, f"{path}.temperature") if picker == "softmax" else 0.0,
    )


def weights_of(values: Any, path: str) -> dict[str, float]:
    """Weights by scorer. Raises InvalidRequest that names the first one that is wrong."""
    if not isinstance(values, dict) or not values:
        raise _wrong(path, f"at least one scorer needs a weight; there are {', '.join(SCORERS)}")
    for name, weight in values.items():
        if name not in SCORERS:
            raise _wrong(f"{path}.{name}", f"unknown scorer{_meant(str(name), SCORERS)}")
        if not _number(weight) or not 0 < weight <= LARGEST_WEIGHT:
            raise _wrong(f"{path}.{name}", f"a number above 0 and up to {LARGEST_WEIGHT:g} is needed")
    return {name: float(values[name]) for name in SCORERS if name in values}


def assign_profile(profiles: dict[str, Any], path: str, rest: str, text: str) -> None:
    """``routing.profiles.REST=TEXT`` done to the document: ``mine.weights.queue_depth=2``, ``mine.picker=softmax``,
    ``mine=none``. Raises InvalidRequest that names the field."""
    name, dot, field = rest.partition(".")
    if not dot:
        if text != _NONE:
            raise _wrong(path, f"which field of it? There are {', '.join(_FIELDS)}; or {path}=none takes it away")
        if profiles.pop(name, None) is None:
            raise _wrong(path, "there is no such profile of yours")
        return
    if name not in profiles and (near := get_close_matches(name, profiles, 1, 0.75)):
        raise _wrong(
            path,
            f"there is no profile {name}; did you mean {near[0]}? A file makes a new one",
            hint="inferdeck policy set -f FILE",
        )
    table: dict[str, Any] = profiles.setdefault(name, {})
    part, _, scorer = field.partition(".")
    if part == "weights" and scorer:
        table, field = table.setdefault("weights", {}), scorer
    elif field not in ("picker", "temperature"):
        raise _wrong(path, f"unknown field {field!r}; there are {', '.join(_FIELDS)}")
    if text == _NONE:
        table.pop(field, None)
        return
    table[field] = text if field == "picker" else _read_number(text, path)
    if field == "picker" and text != "softmax":
        table.pop("temperature", None)


_FIELDS: Final = ("weights.SCORER", "picker", "temperature")


def _temperature(value: Any, path: str) -> float:
    if value is None:
        return DEFAULT_TEMPERATURE
    if not _number(value) or not LEAST_TEMPERATURE <= value <= LARGEST_TEMPERATURE:
        raise _wrong(path, f"a number from {LEAST_TEMPERATURE:g} to {LARGEST_TEMPERATURE:g} is needed")
    return float(value)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _read_number(text: str, path: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise _wrong(path, f"{text!r} is no number; none takes it away") from None


def _meant(name: str, known: tuple[str, ...]) -> str:
    near = get_close_matches(name, known, 1, 0.6)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(known)}"


def _wrong(path: str, message: str, *, hint: str = "") -> InvalidRequest:
    return InvalidRequest(f"{path}: {message}", param=path, hint=hint)
