"""How routers choose, as operators decide it: a part of the policy, told to every router by the fleet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PROFILES: Final = ("least_load", "balanced", "round_robin")
"""The profiles that come with the program."""


@dataclass(frozen=True, slots=True)
class Routing:
    """``profile``: by which name endpoints are picked; empty leaves that to the router's settings."""

    profile: str = ""
