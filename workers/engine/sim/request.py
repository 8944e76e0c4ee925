"""A request as the simulated scheduler takes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class SimRequest:
    """``priority``: lower is better. ``arrival``: seconds on any clock, it only orders equals under the priority
    policy. Prefix blocks are shared only among equal ``cache_salt``s."""

    request_id: str
    prompt_token_ids: Sequence[int]
    max_tokens: int
    priority: int = 0
    arrival: float = 0.0
    cache_salt: str = ""
