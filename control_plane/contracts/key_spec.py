"""What may be said of a key: checks, changes, and the grant it has under a policy. Pure."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Final

from control_plane.contracts.access import KeySpec, KeyView
from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.grant import Grant
from control_plane.contracts.policy import NO_LIMITS, Limits, Policy, Tier
from control_plane.contracts.policy_document import (
    LIMITS,
    NONE,
    limits_document,
    limits_of,
    models_of,
    name_of,
    value_of,
)

NAME_CHARACTERS: Final = 200
LATEST_UNIX: Final = 253_402_300_799.0
FIELDS: Final = ("name", "tenant", "tier", *LIMITS, "models", "expires_unix")


def check(spec: KeySpec, policy: Policy, now_unix: float) -> None:
    """Raises InvalidRequest that names the field."""
    if not spec.name or not spec.name.isprintable() or len(spec.name) > NAME_CHARACTERS:
        raise _wrong("name", f"1 to {NAME_CHARACTERS} characters that can be printed are needed")
    name_of(spec.tenant, "tenant")
    if spec.tier not in policy.tiers:
        raise _wrong("tier", f"there is no tier {spec.tier!r}; there are {', '.join(policy.tiers)}")
    limits_of(limits_document(spec.limits))
    models_of(spec.models, "models")
    expires = spec.expires_unix
    if expires is not None and not (math.isfinite(expires) and now_unix < expires <= LATEST_UNIX):
        raise _wrong("expires_unix", "a key expires in the future, before the year 10,000, or never")


def assigned(spec: KeySpec, assignments: tuple[str, ...]) -> KeySpec:
    """The spec with ``FIELD=VALUE`` done one by one; ``none`` leaves a limit or the models to the tier."""
    for assignment in assignments:
        field, equals, text = (part.strip() for part in assignment.partition("="))
        if not equals:
            raise _wrong(field or "assignment", f"{assignment!r} is not FIELD=VALUE, for example rpm=60")
        if field not in FIELDS:
            raise _wrong(field or "assignment", f"a key has no such field; there are {', '.join(FIELDS)}")
        spec = dataclasses.replace(spec, **_changed(spec, field, text))
    return spec


def _changed(spec: KeySpec, field: str, text: str) -> dict[str, Any]:
    gone = text == NONE
    if field in LIMITS:
        value = None if gone else value_of(field, text, field)
        if value is not None:
            limits_of({field: value})
        return {"limits": dataclasses.replace(spec.limits, **{field: value})}
    if field == "models":
        return {"models": () if gone else models_of(value_of(field, text, field), field)}
    if field == "expires_unix":
        try:
            return {"expires_unix": None if gone else float(text)}
        except ValueError:
            raise _wrong(field, f"{text!r} is no time in seconds") from None
    return {field: text}


def grant_of(view: KeyView, policy: Policy) -> Grant:
    """What a key may do. One whose tier the policy does not have, which nobody can make, is of the lowest tier."""
    spec = view.spec
    tier = policy.tiers.get(spec.tier) or _lowest(policy)
    return Grant(
        key_id=view.id,
        tenant=spec.tenant,
        tier=spec.tier,
        priority=tier.priority,
        weight=tier.weight,
        limits=_either(spec.limits, tier.limits),
        tenant_limits=policy.tenants.get(spec.tenant, NO_LIMITS),
        default_max_tokens=tier.default_max_tokens,
        queue_deadline_s=tier.queue_deadline_s,
        models=spec.models or tier.models,
        expires_unix=spec.expires_unix,
        limit_store_down=policy.limit_store_down,
        conversations=policy.keeping.conversations_of(spec.tenant),
        at_busy=tier.at_busy,
        at_reject=tier.at_reject,
        min_share=tier.min_share,
    )


def _either(own: Limits, otherwise: Limits) -> Limits:
    return Limits(
        **{name: getattr(own, name) if getattr(own, name) is not None else getattr(otherwise, name) for name in LIMITS}
    )


def _lowest(policy: Policy) -> Tier:
    return min(policy.tiers.values(), key=lambda tier: tier.priority)


def _wrong(param: str, message: str) -> InvalidRequest:
    return InvalidRequest(f"{param}: {message}", param=param)
