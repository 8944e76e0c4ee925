from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.contracts.admission import BANDS, AdmissionRules, Band
from control_plane.router.saturation import EXACT, REUSE_S, Gauge, band_of, read
from control_plane.router.scheduling.candidate import STALE_AFTER_S, Candidate

NOW = 100.0
RULES = AdmissionRules()


def candidate(name: str = "a", **fields: object) -> Candidate:
    values = {
        "ready": True,
        "connected": True,
        "sampled_mono": NOW,
        "max_sequences": 10,
        "capacity_tokens": 1000,
    } | fields
    return Candidate(name, f"{name}-i", "m", **values)  # type: ignore[arg-type]


def saturation(*candidates: Candidate, rules: AdmissionRules = RULES, now: float = NOW) -> float:
    reading = read(candidates, rules, now)
    assert reading is not None
    return reading.saturation


class TestOneEndpoint:
    @pytest.mark.parametrize(
        ("fields", "expected"),
        [
            ({}, 0.0),
            ({"kv_usage": 0.6, "running": 4}, 0.6),
            ({"kv_usage": 0.2, "running": 10, "waiting": 9}, 0.9),
            ({"kv_usage": 0.95, "waiting": 1}, 0.95),
        ],
    )
    def test_it_is_as_full_as_its_cache_or_its_queue_is(self, fields: dict[str, object], expected: float) -> None:
        assert saturation(candidate(**fields)) == pytest.approx(expected)

    def test_what_counts_as_full_is_a_rule(self) -> None:
        rules = AdmissionRules(kv_limit=0.8, engine_queue=5)
        assert saturation(candidate(kv_usage=0.4), rules=rules) == pytest.approx(0.5)
        assert saturation(candidate(waiting=4), rules=rules) == pytest.approx(0.8)

    def test_what_came_since_the_sample_counts_and_what_went_does_not(self) -> None:
        one = candidate(kv_usage=0.5, running=5)
        one.since.add(NOW + 0.1, 200, 1)
        assert saturation(one) == pytest.approx(0.7)
        one.since.add(NOW + 0.2, -600, -1)
        assert saturation(one) == pytest.approx(0.1)
        one.since.add(NOW + 0.3, -600, -1)
        assert saturation(one) == 0.0

    def test_sequences_beyond_the_batch_wait_in_the_engine(self) -> None:
        one = candidate(running=8)
        for _ in range(7):
            one.since.add(NOW, 1, 1)
        assert saturation(one) == pytest.approx(0.5)

    def test_an_engine_that_names_neither_blocks_nor_batch_is_known_by_its_use_only(self) -> None:
        one = candidate(max_sequences=0, capacity_tokens=0, kv_usage=0.3, waiting=99)
        one.since.add(NOW, 10**6, 50)
        assert saturation(one) == pytest.approx(0.3)


class TestThePool:
    def test_it_is_the_mean_of_those_that_can_be_picked(self) -> None:
        out = [candidate("x", ready=False), candidate("y", connected=False), candidate("z", cordoned=True)]
        assert saturation(candidate("a", kv_usage=0.9), candidate("b", kv_usage=0.5), *out) == pytest.approx(0.7)
        assert read(out, RULES, NOW) is None

    def test_a_stale_one_is_as_full_as_the_others_at_least(self) -> None:
        """AD02 (a)."""
        stale = candidate("a", sampled_mono=NOW - STALE_AFTER_S - 1, kv_usage=0.0)
        others = candidate("b", kv_usage=0.8), candidate("c", kv_usage=0.6)
        assert saturation(stale, *others) == pytest.approx(0.7)
        stale.tokens = 1000.0
        assert saturation(stale, *others) == pytest.approx(0.8)

    def test_where_all_are_stale_our_own_calls_decide(self) -> None:
        """AD02 (b): no outage, and no flood."""
        stale = [candidate(name, sampled_mono=1.0, kv_usage=0.99, waiting=50) for name in "ab"]
        assert saturation(*stale) == 0.0
        stale[0].tokens = 900.0
        stale[1].sequences = 19
        assert saturation(*stale) == pytest.approx(0.9)
        reading = read(stale, RULES, NOW)
        assert reading is not None
        assert (reading.usable, reading.stale, reading.sample_age_s) == (2, 2, NOW - 1.0)

    @given(
        st.lists(
            st.builds(
                candidate,
                kv_usage=st.floats(0, 1),
                running=st.integers(0, 30),
                waiting=st.integers(0, 30),
                tokens=st.floats(0, 10**5),
                sequences=st.integers(0, 50),
                max_sequences=st.sampled_from([0, 1, 16]),
                capacity_tokens=st.sampled_from([0, 100, 10**6]),
                sampled_mono=st.sampled_from([0.0, NOW - 10, NOW - 1, NOW]),
            ),
            min_size=1,
            max_size=8,
        )
    )
    def test_it_is_never_below_nothing_and_more_use_is_never_less(self, candidates: list[Candidate]) -> None:
        before = saturation(*candidates)
        assert before >= 0.0
        candidates[0].kv_usage += 0.1
        candidates[0].tokens += 100.0
        assert saturation(*candidates) >= before - 1e-9


class TestBands:
    @pytest.mark.parametrize(
        ("value", "band"),
        [
            (0.0, Band.GOOD),
            (0.40, Band.GOOD),
            (0.7499, Band.GOOD),
            (0.75, Band.WATCH),
            (0.80, Band.BUSY),
            (0.82, Band.BUSY),
            (0.90, Band.REJECT),
            (0.95, Band.REJECT),
            (7.0, Band.REJECT),
        ],
    )
    def test_they_begin_where_the_rules_say(self, value: float, band: Band) -> None:
        assert band_of(value, Band.GOOD, RULES) is band

    def test_they_end_a_little_lower(self) -> None:
        assert band_of(0.89, Band.REJECT, RULES) is Band.REJECT
        assert band_of(0.879, Band.REJECT, RULES) is Band.BUSY
        assert band_of(0.785, Band.REJECT, RULES) is Band.BUSY
        assert band_of(0.5, Band.REJECT, RULES) is Band.GOOD

    @given(st.sampled_from([0.75, 0.8, 0.9]), st.lists(st.floats(-0.0099, 0.0099), min_size=2, max_size=50))
    def test_a_value_that_trembles_at_a_border_changes_the_band_once_at_most(
        self, border: float, trembling: list[float]
    ) -> None:
        band, changes = band_of(border + trembling[0], Band.GOOD, RULES), 0
        for delta in trembling[1:]:
            before, band = band, band_of(border + delta, band, RULES)
            changes += band is not before
        assert changes <= 1

    @given(st.floats(0, 2), st.sampled_from(BANDS))
    def test_from_wherever_it_comes_it_is_the_band_of_the_value_or_the_next_above(
        self, value: float, last: Band
    ) -> None:
        band, plain = band_of(value, last, RULES), band_of(value, Band.GOOD, RULES)
        assert plain.rank <= band.rank <= plain.rank + 1
        assert band.rank <= max(last.rank, plain.rank)


class TestGauge:
    def test_few_endpoints_are_read_for_every_call(self) -> None:
        gauge, one = Gauge(), candidate(kv_usage=0.7)
        assert gauge.look("m", [one], RULES, NOW) is Band.GOOD
        one.kv_usage = 0.85
        assert gauge.look("m", [one], RULES, NOW) is Band.BUSY

    def test_of_many_a_reading_is_used_for_some_calls_and_not_for_long(self) -> None:
        gauge, many = Gauge(), [candidate(str(number)) for number in range(4 * EXACT)]
        assert gauge.look("m", many, RULES, NOW) is Band.GOOD
        for each in many:
            each.kv_usage = 0.85
        assert [gauge.look("m", many, RULES, NOW) for _ in range(5)] == [Band.GOOD] * 4 + [Band.BUSY]
        for each in many:
            each.kv_usage = 0.0
        assert gauge.look("m", many, RULES, NOW + 2 * REUSE_S) is Band.GOOD

    def test_models_are_apart_and_none_that_can_be_picked_is_no_band(self) -> None:
        gauge = Gauge()
        assert gauge.look("m", [candidate(kv_usage=0.95)], RULES, NOW) is Band.REJECT
        assert gauge.look("other", [], RULES, NOW) is None
        assert gauge.last("other") is None
        reading = gauge.last("m")
        assert reading is not None
        assert reading.saturation == pytest.approx(0.95)
