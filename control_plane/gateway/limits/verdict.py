"""What whoever keeps the counts answers, in process or shared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from control_plane.gateway.limits.scope import Scope

BUSY_S = 1.0
"""When to try again where calls that run have what is needed. Nobody knows when one of them ends."""


@dataclass(slots=True)
class Standing:
    """What a scope has used of the last minute, and the tokens that older calls still hold. ``*_reset_s``: seconds
    until all of it is free again, if calls that run have ended by then. Mutable because one is made for every call and
    scope, where a frozen one costs three times as much to build."""

    requests: int = 0
    tokens: int = 0
    requests_reset_s: float = 0.0
    tokens_reset_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Refusal:
    """The limit that would be broken. ``wait_s``: seconds until there is room, if calls that run have ended by then;
    None: there never will be."""

    scope: Scope
    limit: Literal["rpm", "tpm", "concurrency"]
    used: int
    asked: int
    wait_s: float | None

    @property
    def bound(self) -> int:
        bound: int = getattr(self.scope.limits, self.limit)
        return bound

    @property
    def longest(self) -> float:
        """What refusals are compared by: after the longest wait all limits have room."""
        return float("inf") if self.wait_s is None else self.wait_s
