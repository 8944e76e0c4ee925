"""What a choice is made for, and what it is made among."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field

from control_plane.router.scheduling.since_sample import SinceSample

STALE_AFTER_S = 3.0
"""A load sample older than this says nothing about now. Workers send one at least every second."""

UNKNOWN_CAPACITY_TOKENS = 65_536
"""Stands in for the KV capacity of a worker that does not report its blocks."""

TYPICAL_TOKENS = 256.0
"""What a request of somebody else is taken to hold, in tokens, until this router has seen some of its own."""

WORK_HALVES_S = 60.0


@dataclass(frozen=True, slots=True)
class Ask:
    """The call to place, as far as placing needs to know it. ``expected_tokens`` is prompt and expected output.

    ``tried`` are the instance ids that lost this call before. ``cached``: how many tokens of the prompt an endpoint is
    believed to have in its prefix cache, by ``Candidate.slot``; empty where nobody has any. ``home``: the instance that
    served this call's session last, if it has one.
    """

    model: str
    prompt_tokens: int
    max_total_tokens: int
    expected_tokens: float
    choices: int = 1
    priority: int = 0
    tried: Set[str] = frozenset()
    cached: Sequence[int] = ()
    home: str = ""

    def cached_at(self, candidate: Candidate) -> int:
        """Tokens of the prompt that the endpoint is believed to have cached."""
        return self.cached[candidate.slot] if self.cached else 0


@dataclass(slots=True, eq=False)
class Candidate:
    """An endpoint and its load, kept up to date in place by whoever owns it.

    ``requests``, ``sequences`` and ``tokens`` are what this router has in flight there. ``others`` is how many requests
    beyond these the worker reported when its load was sampled (``sampled_mono``, monotonic seconds, 0: never).
    ``slot`` is its place in the prefix index, ``block_size`` the tokens of its KV blocks (0: not known), ``work`` the
    prompt tokens to compute that this router gave it lately: what was given ``WORK_HALVES_S`` ago counts half.
    ``running`` and ``waiting`` are all that it reported, ``since`` what this router has sent and seen end from then on.
    """

    worker_id: str
    instance_id: str
    model: str
    max_context: int = 0
    max_sequences: int = 0
    capacity_tokens: int = 0
    ready: bool = False
    cordoned: bool = False
    connected: bool = False
    refusing_until: float = 0.0
    requests: int = 0
    sequences: int = 0
    tokens: float = 0.0
    others: int = 0
    running: int = 0
    waiting: int = 0
    kv_usage: float = 0.0
    sampled_mono: float = 0.0
    typical_tokens: float = TYPICAL_TOKENS
    slot: int = 0
    block_size: int = 0
    work: float = 0.0
    since: SinceSample = field(default_factory=SinceSample)

    def fresh(self, now: float) -> bool:
        return self.sampled_mono >= oldest_fresh(now)


def oldest_fresh(now: float) -> float:
    """Samples taken before this moment are stale; one that was never taken always is."""
    return max(now - STALE_AFTER_S, 1e-9)
