"""Where in the console one is: a view, and what it is about."""

from __future__ import annotations

from dataclasses import dataclass

BASES = ("workers", "requests", "pools", "events", "keys", "decisions", "policy")


@dataclass(frozen=True, slots=True)
class Route:
    """``view`` is one of BASES, "worker", "engine", "request", "explain" or "logs"; ``id`` is what the last five are
    about."""

    view: str
    id: str = ""

    @property
    def base(self) -> bool:
        return self.view in BASES
