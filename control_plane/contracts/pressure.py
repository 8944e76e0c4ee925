"""How full one model's endpoints are to one router, and how many calls wait there.

Field names equal those of ``v1/operator.proto``.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Pressure:
    """``band`` and ``saturation`` (1 is full) are empty and None where no endpoint can be picked. ``stale`` of the
    ``usable`` endpoints have said nothing for a while; ``sample_age_s`` is how old the oldest sample is. ``queued`` are
    those that wait, by tier."""

    model: str
    band: str = ""
    saturation: float | None = None
    usable: int = 0
    stale: int = 0
    sample_age_s: float = 0.0
    queued: dict[str, int] = field(default_factory=dict)
