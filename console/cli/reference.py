"""TYPE[/NAME] as people type it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from control_plane.contracts.errors import InvalidRequest, NotFound

KINDS = (
    "workers",
    "requests",
    "models",
    "pools",
    "gateways",
    "routers",
    "events",
    "keys",
    "operators",
    "audit",
    "conversations",
)
_SHORT = {
    "w": "workers",
    "req": "requests",
    "r": "requests",
    "m": "models",
    "p": "pools",
    "gw": "gateways",
    "ev": "events",
    "k": "keys",
    "op": "operators",
    "conv": "conversations",
}

_SHAPES = {
    "conversations": re.compile(r"conv_[0-9a-f]{32}"),
    "keys": re.compile(r"key-[0-9a-f]{12}"),
    "operators": re.compile(r"op-[0-9a-f]{12}"),
    "requests": re.compile(r"(chatcmpl-|cmpl-)?req-.+"),
    "gateways": re.compile(r"g[0-9]+"),
    "routers": re.compile(r"r[0-9]+"),
    "workers": re.compile(r"[a-z0-9-]+-[0-9]+"),
}


def kind_of(word: str) -> str:
    """The kind a word names: plural, singular or short. Raises InvalidRequest with the nearest one."""
    lowered = word.lower()
    if lowered in _SHORT:
        return _SHORT[lowered]
    for kind in KINDS:
        if lowered in (kind, singular(kind)):
            return kind
    if lowered in ("policy", "policies", "tier", "tiers", "tenant", "tenants", "routing"):
        raise InvalidRequest(f"{word}: that is in the policy", param="type", hint="inferdeck policy get -o table")
    near = get_close_matches(lowered, KINDS, 1, 0.6)
    meant = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(KINDS)}"
    raise InvalidRequest(f"no such type: {word}{meant}", param="type")


def nearest_kind(word: str, others: Iterable[str] = ()) -> str:
    """The kind that a word is likely to mean, by its plural or singular; empty where none is near, or one of ``others``
    is nearer."""
    forms = dict.fromkeys(others, "") | {form: kind for kind in KINDS for form in (kind, singular(kind))}
    near = get_close_matches(word.lower(), forms, 1, 0.75)
    return forms[near[0]] if near else ""


def singular(kind: str) -> str:
    return kind.removesuffix("s")


def references(words: Sequence[str]) -> list[tuple[str, str | None]]:
    """``workers``, ``workers NAME…``, ``TYPE/NAME…`` or names that only one type has, as (kind, name) pairs; a name of
    None means all."""
    if not words:
        raise InvalidRequest(f"which type? There are {', '.join(KINDS)}", param="type")
    if all(_shape(word) for word in words):
        return [(_shape(word), _own_name(_shape(word), word)) for word in words]
    if "/" in words[0]:
        return [_one(word) for word in words]
    kind = kind_of(words[0])
    return [(kind, _own_name(kind, name)) for name in words[1:]] or [(kind, None)]


def _shape(word: str) -> str:
    """The kind whose names look like this; empty where that cannot be told."""
    return next((kind for kind, shape in _SHAPES.items() if shape.fullmatch(word)), "")


def _one(word: str) -> tuple[str, str | None]:
    named, slash, name = word.partition("/")
    if not slash or not name:
        raise InvalidRequest(f"{word} is not TYPE/NAME, for example worker/smollm2-1", param="name")
    kind = kind_of(named)
    return kind, _own_name(kind, name)


def _own_name(kind: str, name: str) -> str:
    """A request's name, also where it is given as the API's answer has it: ``chatcmpl-NAME``."""
    return name.removeprefix("chatcmpl-").removeprefix("cmpl-") if kind == "requests" else name


def bare_name(word: str, kind: str) -> str:
    """The name in ``NAME`` or ``TYPE/NAME``, where only one kind makes sense."""
    named, slash, name = word.partition("/")
    if not slash:
        return _own_name(kind, word)
    if kind_of(named) != kind:
        raise InvalidRequest(f"{word} is not a {singular(kind)}", param="name")
    return _own_name(kind, name)


def not_found(kind: str, name: str, known: Iterable[str], hint: str = "") -> NotFound:
    """No such object, with the nearest name that exists."""
    names = list(known)
    near = get_close_matches(name, names, 1, 0.5) or [other for other in names if name and other.startswith(name)][:1]
    meant = f"; did you mean {near[0]}?" if near else ""
    return NotFound(f"no {singular(kind)} named {name}{meant}", param=singular(kind), hint=hint)
