"""Which endpoints to look at where there are too many to weigh them all for every call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from control_plane.router.scheduling.candidate import Ask, Candidate


def shortlist(
    ask: Ask, candidates: Sequence[Candidate], by_slot: Mapping[int, Candidate], turn: int, most: int
) -> list[Candidate]:
    """At most ``most`` of the candidates: an eighth of them those that have most of the prompt cached, the session's
    home, and of all others every n-th, beginning with another one at each ``turn``. So each is looked at in its turn,
    and the best of many is hardly worse than the best of all."""
    best = most // 8
    step = -(-len(candidates) // (most - best - 1))
    some = list(candidates[turn % step :: step])
    chosen = {candidate.slot for candidate in some}
    for slot in _deepest(ask.cached, best):
        if slot not in chosen and (holder := by_slot.get(slot)) is not None:
            chosen.add(slot)
            some.append(holder)
    if ask.home:
        home = next((c for c in candidates if c.instance_id == ask.home), None)
        if home is not None and home.slot not in chosen:
            some.append(home)
    return some


def _deepest(cached: Sequence[int], most: int) -> list[int]:
    """The slots with the most cached tokens, and any at all."""
    least = sorted(cached)[-most] if len(cached) > most else 1
    if least <= 0:
        return [slot for slot, tokens in enumerate(cached) if tokens]
    more = [slot for slot, tokens in enumerate(cached) if tokens > least]
    as_many = [slot for slot, tokens in enumerate(cached) if tokens == least]
    return more + as_many[: most - len(more)]
