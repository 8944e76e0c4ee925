"""How full a model's endpoints are, and in which band that is. Pure.

What an endpoint reports is half a second old: what this router has sent there and seen end since is added. A sample
that is stale is never read as idleness: then this router's own calls count, and at least as much as fresh ones hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from control_plane.contracts.admission import BANDS, AdmissionRules, Band
from control_plane.router.scheduling.candidate import Candidate, oldest_fresh

REUSE_S = 0.005
EXACT = 64
"""A reading of more endpoints than this is used for some calls in a row, for ``REUSE_S`` at most: one call changes
little there, and reading them all takes long."""


@dataclass(frozen=True, slots=True)
class Reading:
    """``saturation`` is the mean of the ``usable`` endpoints, 1 is full. ``sample_age_s`` is how old the oldest of
    their samples is, in seconds, as far as there are any; ``stale`` of them say nothing about now."""

    saturation: float
    usable: int
    stale: int
    sample_age_s: float


def read(candidates: Sequence[Candidate], rules: AdmissionRules, now: float) -> Reading | None:
    """None where no endpoint can be picked. Written out in one loop: it may run over a thousand of them."""
    oldest, kv_limit, engine_queue = oldest_fresh(now), rules.kv_limit, rules.engine_queue
    total, fresh, first = 0.0, 0, now
    stale: list[Candidate] = []
    for candidate in candidates:
        if not candidate.ready or not candidate.connected or candidate.cordoned:
            continue
        sampled = candidate.sampled_mono
        if sampled and sampled < first:
            first = sampled
        if sampled < oldest:
            stale.append(candidate)
            continue
        since, batch, value = candidate.since, candidate.max_sequences, candidate.kv_usage
        if since.tokens and candidate.capacity_tokens:
            value += since.tokens / candidate.capacity_tokens
        value /= kv_limit
        if batch:
            waiting = candidate.waiting or candidate.running - batch
            waiting += since.sequences
            if waiting > 0:
                value = max(value, waiting / (engine_queue or batch))
        fresh += 1
        if value > 0:
            total += value
    usable = fresh + len(stale)
    if not usable:
        return None
    if stale:
        least = total / fresh if fresh else 0.0
        total += sum(max(least, own(candidate, rules)) for candidate in stale)
    return Reading(total / usable, usable, len(stale), now - first)


def own(candidate: Candidate, rules: AdmissionRules) -> float:
    """One endpoint's saturation by this router's own calls there, prompts and expected answers."""
    batch = candidate.max_sequences
    usage = candidate.tokens / candidate.capacity_tokens if candidate.capacity_tokens else 0.0
    waiting = max(0, candidate.sequences - batch) / (rules.engine_queue or batch) if batch else 0.0
    return max(usage / rules.kv_limit, waiting)


def band_of(saturation: float, last: Band, rules: AdmissionRules) -> Band:
    """The band that this saturation is in, after ``last``: a band is left a little below where it begins."""
    begins = (0.0, rules.watch, rules.busy, rules.reject)
    for band, begin in zip(reversed(BANDS), reversed(begins), strict=True):
        if saturation >= begin or (band.rank <= last.rank and saturation >= begin - rules.hysteresis):
            return band
    return Band.GOOD


@dataclass(slots=True)
class _Kept:
    band: Band = Band.GOOD
    reading: Reading | None = None
    at: float = float("-inf")
    uses: int = 0


class Gauge:
    """The band of each model, from one reading to the next."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}

    def look(self, model: str, candidates: Sequence[Candidate], rules: AdmissionRules, now: float) -> Band | None:
        """The band now; None where no endpoint can be picked."""
        kept = self._kept.get(model)
        if kept is None:
            kept = self._kept[model] = _Kept()
        kept.uses += 1
        if kept.uses > len(candidates) // EXACT or not 0 <= now - kept.at < REUSE_S:
            kept.reading, kept.at, kept.uses = read(candidates, rules, now), now, 0
            if kept.reading is None:
                kept.band = Band.GOOD
            else:
                kept.band = band_of(kept.reading.saturation, kept.band, rules)
        return kept.band if kept.reading is not None else None

    def last(self, model: str) -> Reading | None:
        """What ``look`` read last."""
        kept = self._kept.get(model)
        return kept.reading if kept is not None else None
