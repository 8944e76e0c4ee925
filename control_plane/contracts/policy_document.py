"""The policy as a document that people read and write: plain values of JSON and TOML, checked field by field.

::

    {"version": 3, "limit_store_down": "open", "conversations": 10000,
     "tiers": {"free": {"priority": -10, "weight": 1, "rpm": 20, "tpm": 20000, "concurrency": 4,
                        "default_max_tokens": 1024, "queue_deadline_s": 5.0, "models": [],
                        "at_busy": "throttle", "at_reject": "refuse", "min_share": 0.05}},
     "tenants": {"acme": {"tpm": 5000, "conversations": 50}},
     "routing": {"profile": "least_load"}}

A limit that is not there is no limit; any other field that is not there has its default.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final, get_args

from control_plane.contracts.admission_document import SERVICE_FIELDS, check_shares, every_rule, service_of, typed
from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.keeping import Keeping
from control_plane.contracts.policy import NO_LIMITS, Limits, Policy, StoreDown, Tier
from control_plane.contracts.routing_document import ROUTING_FIELDS, assign_routing, routing_document, routing_of
from control_plane.contracts.whole_number import whole

LIMITS: Final = ("rpm", "tpm", "concurrency")
TENANT_FIELDS: Final = (*LIMITS, "conversations")
TIER_FIELDS: Final = (
    "priority",
    "weight",
    *LIMITS,
    "default_max_tokens",
    "queue_deadline_s",
    "models",
    *SERVICE_FIELDS,
)
NONE: Final = "none"

MOST: Final = 10**12
MOST_MODELS: Final = 256
MODEL_CHARACTERS: Final = 200

_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")
_RANGES: Final = {
    "priority": (-1000, 1000),
    "weight": (1, 1000),
    "default_max_tokens": (1, 10**7),
    **dict.fromkeys(TENANT_FIELDS, (1, MOST)),
}


def document_of(policy: Policy) -> dict[str, Any]:
    """Tiers as they are served, the first first; tenants by name."""
    tiers = sorted(policy.tiers.items(), key=lambda item: (-item[1].priority, item[0]))
    return {
        "version": policy.version,
        "limit_store_down": policy.limit_store_down,
        "conversations": policy.keeping.conversations,
        "tiers": {name: _tier_document(tier) for name, tier in tiers},
        "tenants": {
            name: _tenant_document(policy, name) for name in sorted({*policy.tenants, *policy.keeping.tenants})
        },
        "routing": routing_document(policy.routing),
    }


def limits_document(limits: Limits) -> dict[str, int]:
    """Those limits that there are."""
    return {name: value for name in LIMITS if (value := getattr(limits, name)) is not None}


def _tenant_document(policy: Policy, name: str) -> dict[str, int]:
    kept = policy.keeping.tenants.get(name)
    return limits_document(policy.tenants.get(name, NO_LIMITS)) | ({} if kept is None else {"conversations": kept})


def _tier_document(tier: Tier) -> dict[str, Any]:
    return {
        "priority": tier.priority,
        "weight": tier.weight,
        **limits_document(tier.limits),
        "default_max_tokens": tier.default_max_tokens,
        "queue_deadline_s": tier.queue_deadline_s,
        "models": list(tier.models),
        **{name: getattr(tier, name) for name in SERVICE_FIELDS},
    }


def policy_of(document: Any) -> Policy:
    """Raises InvalidRequest that names the first field that is wrong."""
    values = _table(document, "policy", ("version", "limit_store_down", "conversations", "tiers", "tenants", "routing"))
    version = values.get("version", 0)
    if not isinstance(version, int) or isinstance(version, bool) or version < 0:
        raise _wrong("version", "a whole number is needed")
    down: StoreDown = values.get("limit_store_down", "open")
    if down not in get_args(StoreDown):
        raise _wrong("limit_store_down", "open or closed")
    tiers = _named(values.get("tiers", {}), "tiers")
    if not tiers:
        raise _wrong("tiers", "at least one tier is needed")
    named = _named(values.get("tenants", {}), "tenants").items()
    tenants = {
        name: limits_of(_table(value, f"tenants.{name}", TENANT_FIELDS), f"tenants.{name}.") for name, value in named
    }
    kept = {
        name: whole(value["conversations"], f"tenants.{name}.conversations", *_RANGES["conversations"])
        for name, value in named
        if value.get("conversations") is not None
    }
    conversations = values.get("conversations", Keeping().conversations)
    made = {name: _tier(value, f"tiers.{name}") for name, value in tiers.items()}
    check_shares({name: tier.min_share for name, tier in made.items()})
    return Policy(
        version=version,
        tiers=made,
        tenants={name: limits for name, limits in tenants.items() if limits != NO_LIMITS},
        limit_store_down=down,
        routing=routing_of(_table(values.get("routing", {}), "routing", ROUTING_FIELDS)),
        keeping=Keeping(whole(conversations, "conversations", *_RANGES["conversations"]), kept),
    )


def _tier(document: Any, path: str) -> Tier:
    values = _table(document, path, TIER_FIELDS)
    default = Tier()
    deadline = values.get("queue_deadline_s", default.queue_deadline_s)
    if isinstance(deadline, bool) or not isinstance(deadline, int | float) or not 0 <= deadline <= 3600:
        raise _wrong(f"{path}.queue_deadline_s", "0 to 3600 seconds")
    priority = whole(values.get("priority", default.priority), f"{path}.priority", *_RANGES["priority"])
    at_busy, at_reject, min_share = service_of(values, priority, path)
    return Tier(
        priority=priority,
        weight=whole(values.get("weight", default.weight), f"{path}.weight", *_RANGES["weight"]),
        limits=limits_of(values, f"{path}."),
        default_max_tokens=whole(
            values.get("default_max_tokens", default.default_max_tokens),
            f"{path}.default_max_tokens",
            *_RANGES["default_max_tokens"],
        ),
        queue_deadline_s=float(deadline),
        models=models_of(values.get("models", ()), f"{path}.models"),
        at_busy=at_busy,
        at_reject=at_reject,
        min_share=min_share,
    )


def limits_of(values: Mapping[str, Any], prefix: str = "") -> Limits:
    """The limits among these values; ``prefix`` stands before a field's name in an error."""
    found = {name: values[name] for name in LIMITS if values.get(name) is not None}
    return Limits(**{name: whole(value, prefix + name, *_RANGES[name]) for name, value in found.items()})


def models_of(value: Any, path: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(model, str) for model in value):
        raise _wrong(path, "a list of model names is needed")
    if len(value) > MOST_MODELS:
        raise _wrong(path, f"at most {MOST_MODELS} models")
    for model in value:
        if not model or not model.isprintable() or len(model) > MODEL_CHARACTERS:
            raise _wrong(path, f"a model's name is 1 to {MODEL_CHARACTERS} characters that can be printed")
    return tuple(dict.fromkeys(value))


def name_of(value: Any, path: str) -> str:
    """A tier's or tenant's name."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise _wrong(path, f"{value!r} is not a name: letters, digits and inner . _ -, at most 64")
    return value


def assigned(policy: Policy, assignments: tuple[str, ...]) -> Policy:
    """The policy with ``PATH=VALUE`` done one by one: ``tiers.free.rpm=10``, ``tiers.trial=none`` (take it away).

    A tier or tenant that is not there is made. Raises InvalidRequest that names the field.
    """
    document = document_of(policy)
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        if not equals or not path:
            raise _wrong(path or "assignment", f"{assignment!r} is not FIELD=VALUE, for example tiers.free.rpm=10")
        _assign(document, path.strip(), text.strip())
    return policy_of(document)


def _assign(document: dict[str, Any], path: str, text: str) -> None:
    if path == "limit_store_down":
        document[path] = text
        return
    if path == "conversations":
        if text == NONE:
            del document[path]
        else:
            document[path] = value_of(path, text, path)
        return
    section, _, rest = path.partition(".")
    if section == "routing":
        assign_routing(document[section], path, rest, text)
        return
    if section not in ("tiers", "tenants") or not rest:
        known_paths = "limit_store_down, conversations, tiers.NAME.FIELD, tenants.NAME.FIELD and routing.FIELD"
        raise _wrong(path, f"there are {known_paths}")
    table: dict[str, Any] = document[section]
    known = TIER_FIELDS if section == "tiers" else TENANT_FIELDS
    if text == NONE and rest in table:
        del table[rest]
        return
    name, dot, field = rest.rpartition(".")
    if not dot:
        if text == NONE:
            raise _wrong(path, f"there is no such {section[:-1]}")
        raise _wrong(path, f"which field of it? There are {', '.join(known)}; or {path}=none takes it away")
    if field not in known:
        raise _wrong(path, f"unknown field {field!r}; there are {', '.join(known)}")
    if name not in table:
        name_of(name, path)
        if near := get_close_matches(name, table, 1, 0.75):
            raise _wrong(
                path,
                f"there is no {section[:-1]} {name}; did you mean {near[0]}? A file makes a new one",
                hint="inferdeck policy set -f FILE",
            )
    entry = table.setdefault(name, {})
    if text == NONE:
        entry.pop(field, None)
    else:
        entry[field] = value_of(field, text, path)


def value_of(field: str, text: str, path: str) -> Any:
    """A field's value as it is typed: numbers, and names between commas."""
    if field in SERVICE_FIELDS:
        return typed(field, text, path)
    if field == "models":
        return [part.strip() for part in text.split(",") if part.strip()]
    digits = text.removeprefix("-").replace("_", "").replace(",", "")
    if field == "queue_deadline_s":
        try:
            seconds = float(text)
        except ValueError:
            seconds = math.nan
        if not math.isfinite(seconds):
            raise _wrong(path, f"{text!r} is no number of seconds")
        return seconds
    if not digits.isascii() or not digits.isdigit() or len(digits) > 15:
        raise _wrong(path, f"{text!r} is no whole number; none takes it away")
    return -int(digits) if text.startswith("-") else int(digits)


def differences(before: Policy, after: Policy) -> tuple[str, ...]:
    """What is not the same, a line each: ``tiers.free.rpm: 20 → 10``. The version is none of it."""
    old, new = _told(before), _told(after)
    return tuple(
        f"{path}: {old.get(path, NONE)} → {new.get(path, NONE)}"
        for path in dict.fromkeys([*old, *new])
        if old.get(path, NONE) != new.get(path, NONE)
    )


def _told(policy: Policy) -> dict[str, str]:
    """By path. A rule that is as it comes is not in the document, and has its value all the same."""
    document = document_of(policy)
    document["routing"]["admission"] = every_rule(policy.routing.admission)
    return dict(_flat(document))


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    for name, entry in value.items():
        where = f"{path}{name}"
        if where == "version":
            continue
        if isinstance(entry, dict):
            yield from _flat(entry, f"{where}.")
        else:
            yield where, _shown(name, entry)


def _shown(name: str, entry: Any) -> str:
    if isinstance(entry, list):
        return ", ".join(entry) or ("all" if name == "models" else NONE)
    return str(entry).lower() if isinstance(entry, bool) else str(entry)


def _table(document: Any, path: str, known: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise _wrong(path, "a table of fields is needed")
    for name in document:
        if name not in known:
            near = get_close_matches(str(name), known, 1, 0.6)
            meant = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(known)}"
            raise _wrong(f"{path}.{name}" if path != "policy" else str(name), f"unknown field{meant}")
    return document


def _named(document: Any, path: str) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise _wrong(path, "a table by name is needed")
    return {name_of(name, path): value for name, value in document.items()}


def _wrong(path: str, message: str, *, hint: str = "") -> InvalidRequest:
    return InvalidRequest(f"{path}: {message}", param=path, hint=hint)
