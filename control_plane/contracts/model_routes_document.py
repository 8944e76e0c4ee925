"""The routes of models as a document: see ``policy_document`` and ``model_routes``.

::

    {"smart": {"target": "smollm2-135m", "fallback": ["other"]},
     "blend": {"split": {"a": 90, "b": 10}},
     "auto": {"small": "a", "large": "b", "threshold": 0.4,
              "weights": {"length": 0.5, "code": 0.4, "questions": 0.3, "reasoning": 0.5, "output": 0.2},
              "long_prompt": 8000, "long_output": 1024, "words": ["prove", "step by step"]},
     "a": {"fallback": ["b"]}}
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

from control_plane.contracts.complexity_rule import DEFAULT_WEIGHTS, PARTS, ComplexityRule
from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.model_choice import LARGE, SMALL
from control_plane.contracts.model_routes import DEFAULT_THRESHOLD, ModelRoute
from control_plane.contracts.whole_number import whole

LEADING: Final = ("target", "split", "small", "large")
SCORED: Final = ("threshold", "weights", "long_prompt", "long_output", "words")
FIELDS: Final = (*LEADING, *SCORED, "fallback", "shadow")

MOST_ROUTES: Final = 256
MOST_NAMES: Final = 32
"""Sides of a split, and names to fall back to."""
NAME_CHARACTERS: Final = 200
MOST_WEIGHT: Final = 10_000
MOST_WORDS: Final = 256
WORD_CHARACTERS: Final = 64

_NONE: Final = "none"
_WEIGHT: Final = re.compile(r"(.+)\.weights\.([a-z]+)")
_RANGES: Final = {"long_prompt": (1, 10**7), "long_output": (1, 10**7)}


def routes_document(routes: Mapping[str, ModelRoute]) -> dict[str, Any]:
    """By name. Of a route that is scored everything is said, so that it can be changed."""
    return {name: _route_document(route) for name, route in sorted(routes.items())}


def _route_document(route: ModelRoute) -> dict[str, Any]:
    document: dict[str, Any] = {}
    if route.target:
        document["target"] = route.target
    if route.kind == "auto":
        document |= {"small": route.small, "large": route.large, "threshold": route.threshold}
        document |= {"long_prompt": route.rule.long_prompt, "long_output": route.rule.long_output}
        document["words"] = list(route.rule.words)
        document["weights"] = {part: route.rule.weights[part] for part in PARTS}
    if route.fallback:
        document["fallback"] = list(route.fallback)
    if route.shadow:
        document["shadow"] = True
    if route.split:
        document["split"] = dict(route.sides)
    return document


def routes_of(values: Any, path: str) -> dict[str, ModelRoute]:
    """Raises InvalidRequest that names the first field that is wrong."""
    table = _table(values, path)
    if len(table) > MOST_ROUTES:
        raise _wrong(path, f"at most {MOST_ROUTES} routes")
    routes = {_name(name, path): _route(name, entry, f"{path}.{name}") for name, entry in table.items()}
    for name in routes:
        _check_ends(routes, name, path)
    return routes


def _route(name: str, document: Any, path: str) -> ModelRoute:
    values = _table(document, path)
    for field in values:
        if field not in FIELDS:
            near = get_close_matches(str(field), FIELDS, 1, 0.6)
            meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(FIELDS)}"
            raise _wrong(f"{path}.{field}", f"unknown field; {meant}")
    names = {
        field: _name(values[field], f"{path}.{field}") for field in ("target", "small", "large") if field in values
    }
    split = _split(values["split"], f"{path}.split") if "split" in values else {}
    kinds = [bool(names.get("target")), bool(split), "small" in names or "large" in names]
    if sum(kinds) > 1:
        raise _wrong(path, f"it leads one way: target, or split, or small and large; {path}=none takes it away first")
    if kinds[2] and len(names) < 2:
        raise _wrong(f"{path}.{'large' if 'small' in names else 'small'}", "small and large go together")
    if not kinds[2] and (odd := [field for field in SCORED if field in values]):
        raise _wrong(f"{path}.{odd[0]}", "only a route between small and large has it")
    if any(kinds) and name in (SMALL, LARGE):
        raise _wrong(path, f"{SMALL} and {LARGE} are what callers say to choose a side; take another name")
    shadow = values.get("shadow", False)
    if not isinstance(shadow, bool):
        raise _wrong(f"{path}.shadow", "true or false is needed")
    fallback = _names(values.get("fallback", ()), f"{path}.fallback")
    if not any(kinds) and not fallback:
        raise _wrong(path, "where does it lead? target, or split, or small and large; or fallback for the model itself")
    for field, own in (("fallback", name in fallback), ("split", name in split), ("target", name in names.values())):
        if own and not (shadow and any(kinds)):
            raise _wrong(
                path if field == "target" else f"{path}.{field}",
                "it leads to itself; with shadow=true its own name means the model that is called so",
            )
    return ModelRoute(
        target=names.get("target", ""),
        split=split,
        small=names.get("small", ""),
        large=names.get("large", ""),
        threshold=_number(values.get("threshold", DEFAULT_THRESHOLD), f"{path}.threshold", 0, 1),
        rule=_rule(values, path) if kinds[2] else ComplexityRule(),
        fallback=fallback,
        shadow=shadow,
    )


def _rule(values: Mapping[str, Any], path: str) -> ComplexityRule:
    default = ComplexityRule()
    weights = _table(values.get("weights", {}), f"{path}.weights")
    for part in weights:
        if part not in PARTS:
            raise _wrong(f"{path}.weights.{part}", f"unknown part; there are {', '.join(PARTS)}")
    return ComplexityRule(
        weights={
            part: _number(weights.get(part, DEFAULT_WEIGHTS[part]), f"{path}.weights.{part}", 0, 1) for part in PARTS
        },
        long_prompt=whole(
            values.get("long_prompt", default.long_prompt), f"{path}.long_prompt", *_RANGES["long_prompt"]
        ),
        long_output=whole(
            values.get("long_output", default.long_output), f"{path}.long_output", *_RANGES["long_output"]
        ),
        words=_words(values.get("words", default.words), f"{path}.words"),
    )


def _check_ends(routes: Mapping[str, ModelRoute], start: str, path: str) -> None:
    """Raises InvalidRequest for a route from which one comes back to it."""
    waiting: list[tuple[str, ...]] = [(start,)]
    seen: set[str] = set()
    while waiting:
        way = waiting.pop()
        route = routes.get(way[-1])
        for name in route.targets if route is not None else ():
            if name == way[-1]:
                continue  # the model that is called so
            if name == start:
                raise _wrong(f"{path}.{start}", f"it leads back to itself: {' → '.join((*way, name))}")
            if name not in seen:
                seen.add(name)
                waiting.append((*way, name))


def assign_route(table: dict[str, Any], path: str, rest: str, text: str) -> None:
    """``PATH=TEXT`` with ``rest`` what the path has after ``models.``: ``smart.target``, ``auto.weights.code``,
    ``blend``."""
    if text == _NONE and rest in table:
        del table[rest]
        return
    name, dot, field = rest.rpartition(".")
    if weighted := _WEIGHT.fullmatch(rest):
        name, field = weighted.groups()
        weights = table.setdefault(name, {}).setdefault("weights", {})
        if text == _NONE:
            weights.pop(field, None)
        else:
            weights[field] = _typed("threshold", text, path)
        return
    if not dot or not name:
        if text == _NONE:
            raise _wrong(path, "there is no such route")
        raise _wrong(path, f"which field of it? There are {', '.join(FIELDS)}; or {path}=none takes it away")
    if field not in FIELDS or field == "weights":
        raise _wrong(path, f"unknown field {field!r}; there are {', '.join(FIELDS)}, with weights.PART")
    entry = table.setdefault(name, {})
    if text == _NONE:
        entry.pop(field, None)
        if not entry:
            del table[name]
    else:
        entry[field] = _typed(field, text, path)


def _typed(field: str, text: str, path: str) -> Any:
    """A value as it is typed: numbers, true, names between commas, and for a split ``a:90,b:10``."""
    if field == "split":
        sides = [side.strip().rpartition(":") for side in text.split(",") if side.strip()]
        if not sides or not all(colon and weight.strip().isdecimal() for _, colon, weight in sides):
            raise _wrong(path, f"{text!r} is no split; write NAME:WEIGHT,NAME:WEIGHT")
        return {name.strip(): int(weight) for name, _, weight in sides}
    if field in ("fallback", "words"):
        return [part.strip() for part in text.split(",") if part.strip()]
    if field == "shadow":
        return {"true": True, "false": False}.get(text, text)
    if field == "threshold":
        try:
            return float(text)
        except ValueError:
            raise _wrong(path, f"{text!r} is no number") from None
    if field in _RANGES:
        if not (text.isascii() and text.isdecimal() and len(text) <= 15):
            raise _wrong(path, f"{text!r} is no whole number")
        return int(text)
    return text


def _split(value: Any, path: str) -> dict[str, int]:
    table = _table(value, path)
    if not table or len(table) > MOST_NAMES:
        raise _wrong(path, f"1 to {MOST_NAMES} names with their weights are needed")
    for name, weight in table.items():
        _name(name, path)
        if not isinstance(weight, int) or isinstance(weight, bool) or not 0 <= weight <= MOST_WEIGHT:
            raise _wrong(f"{path}.{name}", f"a whole number from 0 to {MOST_WEIGHT:,} is needed")
    if not any(table.values()):
        raise _wrong(path, "at least one weight above 0 is needed")
    return dict(table)


def _names(value: Any, path: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or len(value) > MOST_NAMES:
        raise _wrong(path, f"a list of at most {MOST_NAMES} names is needed")
    return tuple(dict.fromkeys(_name(name, path) for name in value))


def _words(value: Any, path: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or len(value) > MOST_WORDS:
        raise _wrong(path, f"a list of at most {MOST_WORDS} words is needed")
    for word in value:
        if not isinstance(word, str) or not word.strip() or not word.isprintable() or len(word) > WORD_CHARACTERS:
            raise _wrong(path, f"a word is 1 to {WORD_CHARACTERS} characters that can be printed")
    return tuple(dict.fromkeys(value))


def _name(value: Any, path: str) -> str:
    sound = isinstance(value, str) and value and value.isprintable() and value == value.strip()
    if not sound or len(value) > NAME_CHARACTERS:
        raise _wrong(path, f"a model's name is 1 to {NAME_CHARACTERS} characters that can be printed")
    return str(value)


def _number(value: Any, path: str, least: float, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _wrong(path, "a number is needed")
    if not least <= value <= most:
        raise _wrong(path, f"{least:g} to {most:g}")
    return float(value)


def _table(value: Any, path: str) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise _wrong(path, "a table of fields is needed")
    return value


def _wrong(path: str, message: str) -> InvalidRequest:
    return InvalidRequest(f"{path}: {message}", param=path)
