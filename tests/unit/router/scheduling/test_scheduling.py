from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.router.scheduling.candidate import STALE_AFTER_S, Ask, Candidate
from control_plane.router.scheduling.filters import USABLE, Fits, HasRoom
from control_plane.router.scheduling.interfaces import Scorer
from control_plane.router.scheduling.pickers import MaxRandomTies, RoundRobin
from control_plane.router.scheduling.profile import PROFILES, Profile
from control_plane.router.scheduling.scorers.inflight_tokens import InflightTokens
from control_plane.router.scheduling.scorers.kv_headroom import KvHeadroom
from control_plane.router.scheduling.scorers.queue_depth import QueueDepth
from control_plane.settings import rules

NOW = 100.0
ASK = Ask("m", 10, 20, 20.0)


def candidate(name: str = "a", **fields: object) -> Candidate:
    values = {"ready": True, "connected": True, "sampled_mono": NOW} | fields
    return Candidate(name, f"{name}-i", "m", **values)  # type: ignore[arg-type]


def random_candidates() -> st.SearchStrategy[list[Candidate]]:
    one = st.builds(
        Candidate,
        worker_id=st.uuids().map(str),
        instance_id=st.uuids().map(str),
        model=st.just("m"),
        max_context=st.sampled_from([0, 15, 20, 1000]),
        max_sequences=st.sampled_from([0, 1, 16]),
        capacity_tokens=st.sampled_from([0, 100, 10**6]),
        ready=st.booleans(),
        cordoned=st.booleans(),
        connected=st.booleans(),
        refusing_until=st.sampled_from([0.0, NOW, NOW + 1, float("inf")]),
        sequences=st.integers(0, 40),
        tokens=st.floats(0, 1e7),
        others=st.integers(0, 50),
        waiting=st.integers(0, 50),
        kv_usage=st.floats(0, 1),
        sampled_mono=st.sampled_from([0.0, NOW - STALE_AFTER_S - 1, NOW - 1, NOW]),
    )
    return st.lists(one, max_size=12)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"ready": False}, "not_ready"),
        ({"max_context": 19}, "too_long"),
        ({"instance_id": "gone"}, "tried"),
        ({"cordoned": True}, "cordoned"),
        ({"connected": False}, "unreachable"),
        ({"refusing_until": NOW + 0.1}, "cooling_down"),
        ({"max_sequences": 2, "sequences": 4}, "full"),
        ({"max_sequences": 2, "sequences": 1, "others": 3}, "full"),
    ],
)
def test_each_filter_names_its_reason(fields: dict[str, object], reason: str) -> None:
    left_out = candidate("out")
    for name, value in fields.items():
        setattr(left_out, name, value)
    ask = Ask("m", 10, 20, 20.0, tried=frozenset({"gone"}))
    decision = PROFILES["least_load"](Random(0)).decide(ask, [left_out, candidate("in")], NOW)
    assert decision.left_out == {"out": reason}
    assert decision.chosen is not None
    assert decision.chosen.worker_id == "in"


def test_bounds_are_included() -> None:
    assert Fits().keep(ASK, [candidate(max_context=20)], NOW)
    assert HasRoom().keep(ASK, [candidate(max_sequences=2, sequences=3)], NOW)
    assert HasRoom().keep(ASK, [candidate(max_sequences=2, sequences=1, others=9, sampled_mono=1.0)], NOW)


@given(random_candidates(), st.integers(0, 10))
def test_whoever_is_picked_passes_every_filter(candidates: list[Candidate], seed: int) -> None:
    for make in PROFILES.values():
        decision = make(Random(seed)).decide(ASK, candidates, NOW)
        fit = candidates
        for rule in USABLE:
            fit = rule.keep(ASK, fit, NOW)
        assert (decision.chosen is None) is (not fit)
        assert decision.chosen is None or decision.chosen in fit
        assert set(decision.scores) == {c.worker_id for c in fit} == set(decision.totals)
        assert set(decision.left_out) == {c.worker_id for c in candidates} - set(decision.scores)


@pytest.mark.parametrize("scorer", [InflightTokens(), QueueDepth(), KvHeadroom()])
@given(candidates=random_candidates())
def test_scores_stay_between_0_and_1(scorer: Scorer, candidates: list[Candidate]) -> None:
    scores = scorer.score(ASK, candidates, NOW)
    assert len(scores) == len(candidates)
    assert all(0.0 <= score <= 1.0 for score in scores)


@pytest.mark.parametrize(
    ("scorer", "better", "worse"),
    [
        (InflightTokens(), {"tokens": 10.0}, {"tokens": 11.0}),
        (InflightTokens(), {"others": 0}, {"others": 1}),
        (InflightTokens(), {"tokens": 100.0, "capacity_tokens": 10_000}, {"tokens": 100.0, "capacity_tokens": 1_000}),
        (QueueDepth(), {"waiting": 0}, {"waiting": 1}),
        (KvHeadroom(), {"kv_usage": 0.2}, {"kv_usage": 0.3}),
    ],
)
def test_less_load_scores_higher(scorer: Scorer, better: dict[str, object], worse: dict[str, object]) -> None:
    high, low = scorer.score(ASK, [candidate("a", **better), candidate("b", **worse)], NOW)
    assert high > low


@pytest.mark.parametrize("scorer", [InflightTokens(), QueueDepth(), KvHeadroom()])
def test_a_stale_sample_is_never_read_as_idle(scorer: Scorer) -> None:
    stale = candidate("stale", sampled_mono=NOW - STALE_AFTER_S - 0.1)
    fresh = candidate("fresh", others=3, waiting=2, kv_usage=0.5)
    stale_score, fresh_score = scorer.score(ASK, [stale, fresh], NOW)
    assert stale_score < fresh_score


def test_where_all_are_stale_our_own_count_decides() -> None:
    stale = NOW - STALE_AFTER_S - 0.1
    busy = candidate("busy", tokens=50.0, sampled_mono=stale)
    idle = candidate("idle", others=40, sampled_mono=stale)
    decision = PROFILES["least_load"](Random(0)).decide(ASK, [busy, idle], NOW)
    assert decision.chosen is idle


def test_every_profile_can_be_named_in_the_settings_and_no_other() -> None:
    assert set(rules.PROFILES) == set(PROFILES)
    assert all(PROFILES[name](Random(0)).name == name for name in PROFILES)


def test_balanced_hears_what_workers_say_of_themselves() -> None:
    quiet, queued, full = candidate("quiet"), candidate("queued", waiting=3), candidate("full", kv_usage=0.9)
    for seed in range(5):
        decision = PROFILES["balanced"](Random(seed)).decide(ASK, [queued, full, quiet], NOW)
        assert decision.chosen is quiet
        assert decision.scorers == ("inflight_tokens", "queue_depth", "kv_headroom")
    loaded = candidate("loaded", tokens=1e9)
    assert PROFILES["balanced"](Random(0)).decide(ASK, [loaded, queued], NOW).chosen is queued


def test_equals_share_at_random() -> None:
    profile = PROFILES["least_load"](Random(3))
    three = [candidate(name) for name in "abc"]
    picks = Counter(
        str(decision.chosen.worker_id) for _ in range(600) if (decision := profile.decide(ASK, three, NOW)).chosen
    )
    assert set(picks) == set("abc")
    assert all(150 <= count <= 250 for count in picks.values())


def test_the_same_seed_makes_the_same_choices() -> None:
    three = [candidate(name) for name in "abc"]

    def choices() -> list[str]:
        profile = PROFILES["least_load"](Random(5))
        return [profile.decide(ASK, three, NOW).chosen.worker_id for _ in range(20)]  # type: ignore[union-attr]

    assert choices() == choices()


def test_round_robin_skips_who_is_gone_and_keeps_models_apart() -> None:
    picker = RoundRobin()
    a, b, c = (candidate(name) for name in "abc")
    picks = [
        picker.pick(ASK, row, [1.0] * len(row)).worker_id for row in ([a, b, c], [a, b, c], [a, c], [b, c], [c, b, a])
    ]
    assert picks == ["a", "b", "c", "b", "c"]
    assert picker.pick(Ask("other", 1, 1, 1.0), [a, b], [1.0, 1.0]) is a


def test_weights_are_relative_and_every_score_is_kept() -> None:
    free, idle = candidate("free", kv_usage=0.0, waiting=1), candidate("idle", kv_usage=0.6, waiting=0)

    def decide(headroom: float, queue: float) -> tuple[str, dict[str, float]]:
        profile = Profile("mine", ((KvHeadroom(), headroom), (QueueDepth(), queue)), MaxRandomTies(Random(0)))
        decision = profile.decide(ASK, [free, idle], NOW)
        assert decision.chosen is not None
        assert decision.scorers == ("kv_headroom", "queue_depth")
        assert decision.scores == {"free": (1.0, 0.5), "idle": (0.4, 1.0)}
        return decision.chosen.worker_id, decision.totals

    assert decide(3, 1) == ("free", {"free": pytest.approx(0.875), "idle": pytest.approx(0.55)})
    assert decide(1, 3) == ("idle", {"free": pytest.approx(0.625), "idle": pytest.approx(0.85)})
