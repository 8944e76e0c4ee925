"""Which endpoints to look at where there are too many to weigh them all for every call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from operator import attrgetter

from control_plane.router.scheduling.candidate import Ask, Candidate

_slot = attrgetter("slot")


def shortlist(
    ask: Ask, candidates: Sequence[Candidate], by_slot: Mapping[int, Candidate], turn: int, most: int
) -> list[Candidate]:
    """At most ``most`` of the candidates: an eighth of them those that have most of the prompt cached, the session's
    home, and of all others every n-th, beginning with another one at each ``turn``. So each is looked at in its turn,
    and the best of many is hardly worse than the best of all."""
    best = most // 8
    step = -(-len(candidates) // (most - best - 1))
    some = list(candidates[turn % step :: step])
    chosen = set(map(_slot, some))
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
    some = list(compress(range(len(cached)), cached))
    if len(some) < most:
        return some
    least = sorted(cached[slot] for slot in some)[-most]
    more = [slot for slot in some if cached[slot] > least]
    as_many = [slot for slot in some if cached[slot] == least]
    return more + as_many[: most - len(more)]
