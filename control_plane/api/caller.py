"""Who makes the call that is being answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from control_plane.contracts.access import Actor


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
