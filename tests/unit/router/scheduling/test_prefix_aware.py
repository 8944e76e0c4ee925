"""Cached tokens against load: the scorers, and the profile that weighs them."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.router.scheduling.candidate import STALE_AFTER_S, Ask, Candidate
from control_plane.router.scheduling.interfaces import Scorer
from control_plane.router.scheduling.load import FULL, loads
from control_plane.router.scheduling.profile import PROFILES
from control_plane.router.scheduling.scorers.even_load import EvenLoad
from control_plane.router.scheduling.scorers.inflight_tokens import InflightTokens
from control_plane.router.scheduling.scorers.prefix_cache import PrefixCache
from control_plane.router.scheduling.scorers.recent_work import RecentWork
from control_plane.router.scheduling.scorers.session_affinity import SessionAffinity

NOW = 100.0
STALE = NOW - STALE_AFTER_S - 0.1


def fleet(*loads: float, **fields: object) -> list[Candidate]:
    """Candidates a, b, c … in the slots 0, 1, 2 … with so many tokens in flight."""
    values = {"ready": True, "connected": True, "sampled_mono": NOW} | fields
    return [
        Candidate(chr(97 + slot), f"{chr(97 + slot)}-i", "m", slot=slot, tokens=tokens, **values)  # type: ignore[arg-type]
        for slot, tokens in enumerate(loads)
    ]


def ask(*cached: int, prompt: int = 2000, home: str = "") -> Ask:
    return Ask("m", prompt, prompt + 100, prompt + 100.0, cached=cached, home=home)


def chosen(candidates: list[Candidate], asked: Ask, profile: str = "prefix_aware", seed: int = 0) -> str:
    decision = PROFILES[profile](Random(seed)).decide(asked, candidates, NOW)
    assert decision.chosen is not None
    return decision.chosen.worker_id


@given(
    st.lists(
        st.tuples(st.floats(0, 1e7), st.integers(0, 50), st.booleans(), st.floats(0, 1e6), st.sampled_from([0, 9_999])),
        min_size=1,
        max_size=8,
    ),
    st.integers(1, 10_000),
    st.randoms(use_true_random=False),
)
def test_scores_stay_between_0_and_1(
    rows: list[tuple[float, int, bool, float, int]], prompt: int, dice: Random
) -> None:
    candidates = fleet(*(row[0] for row in rows))
    for candidate, (_, others, fresh, work, capacity) in zip(candidates, rows, strict=True):
        candidate.others, candidate.work, candidate.capacity_tokens = others, work, capacity
        candidate.sampled_mono = NOW if fresh else STALE
    asked = ask(*(dice.randrange(prompt) for _ in rows), prompt=prompt, home="a-i")
    scorers: tuple[Scorer, ...] = (PrefixCache(), EvenLoad(), RecentWork(), SessionAffinity(), InflightTokens())
    for scorer in scorers:
        for asking in (asked, ask(prompt=prompt)):
            scores = scorer.score(asking, candidates, NOW)
            assert len(scores) == len(rows)
            assert all(0.0 <= score <= 1.0 for score in scores), scorer.name


@given(st.lists(st.tuples(st.floats(0, 1e5), st.integers(0, 9), st.booleans()), min_size=1, max_size=8))
def test_silence_is_never_read_as_idleness(rows: list[tuple[float, int, bool]]) -> None:
    candidates = fleet(*(row[0] for row in rows))
    for candidate, (_, others, fresh) in zip(candidates, rows, strict=True):
        candidate.others, candidate.sampled_mono = others, NOW if fresh else STALE
    known = [c.tokens + c.others * c.typical_tokens for c in candidates]
    if not any(row[2] for row in rows):
        assert loads(candidates, NOW) == [c.tokens for c in candidates]
        return
    busiest = max(c.others for c, row in zip(candidates, rows, strict=True) if row[2])
    for candidate, (_, _, fresh), found, sure in zip(candidates, rows, loads(candidates, NOW), known, strict=True):
        if fresh:
            assert found == sure
        else:
            assert found > max(sure, candidate.tokens + busiest * candidate.typical_tokens)


def test_more_cached_scores_higher_and_a_full_cache_is_worth_nothing() -> None:
    candidates = fleet(0, 0, 0, 0)
    candidates[2].kv_usage = candidates[3].kv_usage = FULL
    candidates[3].sampled_mono = STALE  # of long ago: it says nothing
    scores = PrefixCache().score(ask(500, 1000, 1900, 1900), candidates, NOW)
    assert scores == [0.25, 0.5, 0.0, 0.95]
    assert EvenLoad().score(ask(), candidates[:3], NOW) == [1.0, 1.0, 0.0]


def test_load_at_the_mean_is_three_quarters_whatever_the_mean() -> None:
    for tokens in (10.0, 1e6):
        assert EvenLoad().score(ask(prompt=1), fleet(tokens, tokens), NOW) == [0.75, 0.75]
    light, heavy = EvenLoad().score(ask(prompt=1), fleet(0, 1e6), NOW)
    assert (light, heavy) == (1.0, 0.0)


def test_twice_the_kv_cache_carries_twice_the_load() -> None:
    small, large = fleet(1000, 2000)
    small.capacity_tokens, large.capacity_tokens = 10_000, 20_000
    scores = EvenLoad().score(ask(), [small, large], NOW)
    assert scores[0] == pytest.approx(scores[1])


def test_work_is_spread_where_nothing_is_in_flight() -> None:
    candidates = fleet(0, 0, 0)
    candidates[0].work, candidates[1].work = 4000.0, 2000.0
    assert {chosen(candidates, ask(), seed=seed) for seed in range(5)} == {"c"}


def test_a_holder_is_picked_unless_it_has_clearly_more_to_do() -> None:
    asked = ask(0, 1984, 0)
    assert chosen(fleet(0, 0, 0), asked) == "b"
    assert chosen(fleet(40_000, 40_000, 40_000), asked) == "b"
    assert chosen(fleet(40_000, 44_000, 40_000), asked) == "b"
    assert chosen(fleet(40_000, 80_000, 40_000), asked) in "ac"


def test_a_block_that_everybody_shares_is_no_reason_to_pile_up() -> None:
    candidates = fleet(0, 0, 0)
    candidates[1].work = 2000.0
    assert chosen(candidates, ask(0, 16, 0)) in "ac"


def test_a_saturated_holder_is_skipped() -> None:
    """R01."""
    candidates = fleet(0, 0, 0)
    candidates[1].kv_usage = 0.95
    assert chosen(candidates, ask(0, 1984, 0)) in "ac"


def test_a_session_stays_where_all_else_is_equal() -> None:
    candidates = fleet(0, 0, 0)
    assert {chosen(candidates, ask(home="b-i"), seed=seed) for seed in range(9)} == {"b"}
    assert {chosen(candidates, ask(home="gone"), seed=seed) for seed in range(40)} == {"a", "b", "c"}
    assert chosen(candidates, ask(0, 0, 1984, home="b-i")) == "c", "what is cached says more"


def test_one_that_has_gone_silent_is_not_preferred() -> None:
    """AD02: it was idle when it was heard last."""
    candidates = fleet(100, 100, 0)
    for candidate in candidates[:2]:
        candidate.others = 2
    candidates[2].sampled_mono = STALE
    assert chosen(candidates, ask()) in "ab"


def test_where_all_are_silent_our_own_count_decides() -> None:
    """AD02: no outage, and no herd."""
    candidates = fleet(9_000, 100, 9_000, sampled_mono=STALE)
    assert chosen(candidates, ask()) == "b"


@given(st.lists(st.integers(0, 60), min_size=2, max_size=8), st.integers(0, 7), st.integers(0, 5))
def test_nobody_gets_a_call_who_has_half_as_much_again_as_the_mean(held: list[int], holder: int, seed: int) -> None:
    """R01, as a bound on every single choice: in calls of one size."""
    candidates = fleet(*(2100.0 * count for count in held))
    holder %= len(held)
    cached = [0] * len(held)
    cached[holder] = 1984
    mean = sum(held) / len(held)
    if chosen(candidates, ask(*cached), seed=seed) == candidates[holder].worker_id:
        assert held[holder] <= max(1.5 * mean, mean + 6)
