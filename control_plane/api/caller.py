"""Who makes the call that is being answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from control_plane.contracts.access import Actor, Role
from control_plane.contracts.errors import DropReason, Forbidden


@dataclass(frozen=True, slots=True)
class Caller:
    """``check`` raises where the operator is none any more: streams outlive what was checked at their start."""

    actor: Actor
    check: Callable[[], Awaitable[None]]


_CALLER: Final[ContextVar[Caller]] = ContextVar("caller")


def enter(caller: Caller) -> None:
    """From here on this call is the caller's."""
    _CALLER.set(caller)


def caller() -> Caller:
    return _CALLER.get()


def require(role: Role, what: str) -> None:
    """Raises Forbidden where the caller's role is lower; ``what`` is what they asked for."""
    actor = caller().actor
    if actor.role.value < role.value:
        raise too_low(actor, what, role)


def too_low(actor: Actor, what: str, wanted: Role) -> Forbidden:
    have, need = actor.role.name.lower(), wanted.name.lower()
    return Forbidden(
        f"{what} needs the role {need}, and {actor.name} is {'an' if have[0] in 'ao' else 'a'} {have}",
        reason=DropReason.ROLE_TOO_LOW,
        hint=f"ask an admin: inferdeck operator create NAME --role {need}",
    )
