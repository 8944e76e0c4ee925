"""Calls of the three tiers at a pool that fills up, by what the dispatcher does with them."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control_plane.contracts.admission import AdmissionRules
from control_plane.contracts.call import CallHandle
from control_plane.contracts.errors import DropReason, InferDeckError, InvalidRequest, Throttled, Unavailable
from control_plane.contracts.fleet import CancelOutcome, RequestPhase, WorkerPhase
from control_plane.contracts.hold import Hold, HoldReason
from control_plane.router.requests import MOST_HOLDS
from tests.unit.router.stage import RecordingSink, Stage, StageLink
from tests.unit.router.tiers import ENTERPRISE, FREE, PAID

ROOMY = {"max_num_seqs": 1000, "total_blocks": 100_000}


def stage_at(kv_usage: float, *, queue_timeout_s: float = 30.0, **rules: float) -> Stage:
    stage = Stage(queue_timeout_s=queue_timeout_s)
    stage.dispatcher.admit_by(AdmissionRules(**rules))  # type: ignore[arg-type]
    stage.start("a", **ROOMY)
    stage.sample("a", kv_usage)
    return stage


def refused(stage: Stage, tier: dict[str, object]) -> InferDeckError:
    with pytest.raises(InferDeckError) as caught:
        stage.submit(**tier)
    return caught.value


class TestBands:
    def test_below_busy_everybody_is_sent(self) -> None:
        for kv_usage in (0.40, 0.78):
            stage = stage_at(kv_usage)
            for name, tier in (("e", ENTERPRISE), ("p", PAID), ("f", FREE)):
                assert stage.submit(name, **tier)[0].worker_id == "a"

    def test_at_busy_enterprise_is_sent_paid_waits_and_free_is_throttled(self) -> None:
        stage = stage_at(0.82)
        stage.submit("e", **ENTERPRISE)
        _, paid = stage.submit("p", **PAID)
        error = refused(stage, FREE)
        assert stage.link("a").sent == ["e"]
        assert (stage.dispatcher.queued, paid.over) == (1, False)
        assert isinstance(error, Throttled)
        assert (error.code, error.status.http) == ("tier_throttled", 429)
        stage.sample("a", 0.5)
        assert stage.link("a").sent == ["e", "p"]

    def test_at_reject_enterprise_and_paid_wait_and_free_is_refused(self) -> None:
        stage = stage_at(0.95)
        stage.submit("p", **PAID)
        stage.submit("e", **ENTERPRISE)
        error = refused(stage, FREE)
        assert (error.code, error.status.http, error.retry_after_s) == ("overloaded", 503, None)
        assert stage.link("a").sent == []
        stage.sample("a", 0.85)
        assert stage.link("a").sent == ["e"], "where it is only busy, the first tier goes on"
        stage.sample("a", 0.3)
        assert stage.link("a").sent == ["e", "p"]

    def test_a_refusal_is_counted_by_reason_and_tier_and_ends_its_request(self) -> None:
        stage = stage_at(0.95)
        refused(stage, FREE)
        assert stage.dispatcher.rejections == {("tiny", "overloaded", "free"): 1}
        assert len(stage.ledger) == 0
        [view] = stage.ledger.take(stage.now).ended
        assert (view.phase, view.reason, view.tier) == (RequestPhase.FAILED, "overloaded", "free")

    def test_what_was_sent_since_the_sample_makes_it_busy(self) -> None:
        stage = Stage()
        stage.start("a", max_num_seqs=100, total_blocks=64)  # 1,024 tokens
        stage.sample("a", 0.7)
        stage.submit("e", prompt=150, **ENTERPRISE)
        stage.submit("p", prompt=3, **PAID)
        link = stage.link("a")
        assert link.sent == ["e"]
        link.finish("e")
        assert link.sent == ["e", "p"], "its end is known before the next sample is"

    def test_a_sample_that_is_stale_blocks_nobody_for_ever(self) -> None:
        """AD02 (b)."""
        stage = stage_at(0.99)
        stage.submit("p", **PAID)
        stage.advance(2.5)
        assert stage.link("a").sent == []
        stage.advance(2.0)
        assert stage.link("a").sent == ["p"]
        [pressure] = [each for each in stage.dispatcher.pressures() if each.model == "tiny"]
        assert (pressure.stale, pressure.usable) == (1, 1)
        assert pressure.sample_age_s == pytest.approx(4.5)

    def test_other_rules_hold_from_now_on(self) -> None:
        stage = stage_at(0.82)
        stage.submit("p", **PAID)
        stage.dispatcher.admit_by(AdmissionRules(busy=0.85, reject=0.95))
        assert stage.link("a").sent == ["p"]

    def test_calls_that_were_at_a_worker_go_on_elsewhere_whatever_the_band(self) -> None:
        stage = Stage()
        stage.start("a", "b", **ROOMY)
        _, sink = stage.submit("f", **FREE)
        first = stage.link(stage.where("f"))
        first.token("f")
        for name in "ab":
            stage.sample(name, 0.97)
        first.down()
        assert not sink.over
        assert stage.where("f") in {"a", "b"} - {first.target.worker_id}


class TestHolds:
    """Why a call waited, how long, and where it stood, for those who ask."""

    def test_it_waits_by_its_tier_and_both_are_told_while_it_does(self) -> None:
        stage = stage_at(0.82)
        stage.submit("p1", **PAID)
        stage.submit("p2", **PAID)
        stage.advance(1.5)
        stage.sample("a", 0.82)
        first, second = (view.holds[0] for view in stage.ledger.take(stage.now).active)
        assert (first.reason, first.tier, first.band, first.position, first.queued) == ("busy", "paid", "busy", 1, 1)
        assert (second.position, second.queued, second.over) == (2, 2, False)
        assert first.saturation == pytest.approx(0.82 / AdmissionRules().kv_limit)
        assert first.waited_s == pytest.approx(1.501)
        [stages] = [view.stages for view in stage.ledger.take(stage.now).active if view.id == "p1"]
        assert [(each.name, each.duration_s) for each in stages] == [("queue", pytest.approx(1.501))]

    def test_what_it_waited_is_told_of_one_that_was_sent_and_ended(self) -> None:
        stage = stage_at(0.95)
        stage.submit("e", **ENTERPRISE)
        stage.advance(1.0)
        stage.sample("a", 0.3)
        stage.link("a").finish("e")
        stage.advance(2.0)
        [view] = stage.ledger.take(stage.now).ended
        [hold] = view.holds
        assert (hold.reason, hold.band, hold.over) == ("full", "reject", True)
        assert (hold.start_s, hold.waited_s) == (0.0, pytest.approx(1.001))

    def test_one_that_waits_in_vain_is_told_of_to_its_end(self) -> None:
        stage = stage_at(0.95, queue_timeout_s=2.0)
        stage.submit("p", **PAID)
        for _ in range(4):
            stage.advance(1.0)
            stage.sample("a", 0.95)
        [view] = stage.ledger.take(stage.now).ended
        assert view.phase is RequestPhase.FAILED
        assert (view.holds[0].over, view.holds[0].waited_s) == (True, pytest.approx(2.0, abs=0.1))
        assert [(each.name, each.duration_s) for each in view.stages] == [("queue", pytest.approx(2.0, abs=0.1))]

    def test_without_a_worker_and_without_room(self) -> None:
        stage = Stage()
        stage.dispatcher.admit_by(AdmissionRules(engine_queue=10))
        stage.start("a", max_num_seqs=1)
        stage.sample("a", 0.1)
        for name in ("one", "two", "three"):
            stage.submit(name)
        [held] = [view.holds for view in stage.ledger.take(stage.now).active if view.holds]
        assert (held[0].reason, held[0].band, held[0].position) == ("no_room", "good", 1)
        stage.workers["a"].cordoned = True
        stage.publish()
        stage.submit("four")
        hold = stage.ledger.take(stage.now).active[-1].holds[0]
        assert (hold.reason, hold.band, hold.saturation) == ("no_worker", "", None)
        assert (hold.position, hold.queued) == (2, 2)

    def test_one_that_lost_its_worker_stands_first(self) -> None:
        stage = Stage()
        stage.start("a", max_num_seqs=1)
        stage.sample("a", 0.1)
        for name in ("one", "two", "three"):
            stage.submit(name)
        stage.advance(1.0)
        stage.link("a").down()
        holds = {view.id: view.holds for view in stage.ledger.take(stage.now).active}
        assert [(hold.reason, hold.position) for hold in holds["one"]] == [("returned", 1)]
        assert holds["one"][0].start_s == pytest.approx(1.001, abs=0.01)

    def test_of_a_call_that_waits_again_and_again_the_last_times_are_told(self) -> None:
        stage = stage_at(0.5)
        stage.submit("p", **PAID)
        request = stage.ledger.find("p")
        assert request is not None
        for number in range(MOST_HOLDS + 8):
            request.held_back(Hold(HoldReason.RETURNED, float(number), over=True))
        [view] = stage.ledger.take(stage.now).active
        assert [hold.start_s for hold in view.holds] == [float(number) for number in range(8, MOST_HOLDS + 8)]

    def test_who_is_sent_at_once_was_not_kept_waiting(self) -> None:
        stage = stage_at(0.5)
        stage.submit("p", **PAID)
        assert stage.ledger.take(stage.now).active[0].holds == ()


class TestQueue:
    def test_ad01(self) -> None:
        """KV 0.95, two places: overflow is told at once, the first tier takes a place, and the rest go by tier."""
        stage = stage_at(0.95, queue_limit=2, queue_share=1.0)
        sinks = [stage.submit(f"p{number}", **PAID)[1] for number in (1, 2)]
        for _ in range(3):
            error = refused(stage, PAID)
            assert (error.code, error.status.http) == ("overloaded", 503)
        _, enterprise = stage.submit("e", **ENTERPRISE)
        assert isinstance(sinks[1].error, Unavailable), "the youngest of the lowest tier made room"
        assert (sinks[1].error.code, stage.dispatcher.queued) == ("overloaded", 2)
        stage.advance(2.0)
        stage.sample("a", 0.5)
        link = stage.link("a")
        assert link.sent == ["e", "p1"]
        for name in link.sent:
            link.finish(name)
        assert enterprise.done
        assert sinks[0].done
        stage.check()

    def test_ad01_that_never_gets_better(self) -> None:
        stage = stage_at(0.95, queue_limit=2, queue_timeout_s=3.0)
        _, sink = stage.submit("e", **ENTERPRISE)
        for _ in range(7):
            stage.advance(0.5)
            stage.sample("a", 0.95)
        assert isinstance(sink.error, Unavailable)
        assert (sink.error.code, sink.deltas) == ("overloaded", [])
        assert stage.link("a").sent == []
        assert stage.dispatcher.rejections == {("tiny", "overloaded", "enterprise"): 1}

    def test_one_tier_cannot_fill_it_all(self) -> None:
        stage = stage_at(0.95, queue_limit=8, queue_share=0.5)
        for _ in range(4):
            stage.submit(**PAID)
        error = refused(stage, PAID)
        assert error.code == "overloaded"
        assert stage.dispatcher.queued == 4
        for _ in range(4):
            stage.submit(**ENTERPRISE)
        error = refused(stage, ENTERPRISE)
        assert "'enterprise'" in error.message
        assert stage.dispatcher.queued == 8

    def test_c01_one_that_left_never_reaches_a_worker(self) -> None:
        stage = Stage()
        stage.start("a", max_num_seqs=1, total_blocks=1000)
        stage.submit("runs", **PAID)
        stage.submit("next", **PAID)
        leaver, sink = stage.submit("b", **PAID)
        stage.submit("c", **PAID)
        leaver.cancel("client_left")
        [pressure] = [each for each in stage.dispatcher.pressures() if each.model == "tiny"]
        assert pressure.queued == {"paid": stage.dispatcher.queued}
        link = stage.link("a")
        link.finish("runs")
        link.finish("next")
        assert link.sent == ["runs", "next", "c"]
        assert not sink.over

    def test_tenants_take_turns(self) -> None:
        stage = stage_at(0.85)
        for number in range(6):
            stage.submit(f"a{number}", flow="acme", **PAID)
        for number in range(2):
            stage.submit(f"b{number}", flow="bob", **PAID)
        stage.sample("a", 0.2)
        assert stage.link("a").sent == ["a0", "b0", "a1", "b1", "a2", "a3", "a4", "a5"]

    def test_a_low_tier_is_not_starved_by_a_flood(self) -> None:
        stage = stage_at(0.85)
        for number in range(100):
            stage.submit(f"p{number}", flow=str(number % 3), **PAID)
        for number in range(200):
            stage.submit(f"e{number}", **ENTERPRISE)
        sent = Counter(name[0] for name in stage.link("a").sent)
        assert sent["e"] == 200
        assert sent["p"] == pytest.approx(0.1 * sent.total(), abs=2)

    def test_pressures_tell_band_and_queue(self) -> None:
        stage = stage_at(0.95)
        for tier in (PAID, PAID, ENTERPRISE):
            stage.submit(**tier)
        tiny, other = stage.dispatcher.pressures()
        assert (tiny.model, tiny.band, tiny.usable, tiny.queued) == ("tiny", "reject", 1, {"paid": 2, "enterprise": 1})
        assert tiny.saturation == pytest.approx(0.95)
        assert (other.band, other.saturation, other.queued) == ("", None, {})

    def test_a_sink_that_closes_everything_when_it_is_evicted_leaves_nothing(self) -> None:
        stage = stage_at(0.95, queue_limit=1, queue_share=1.0)
        _, sink = stage.submit("p", **PAID)
        sink.on_end = stage.dispatcher.close
        _, newcomer = stage.submit("e", **ENTERPRISE)
        assert newcomer.error is not None
        assert stage.dispatcher.queued == 0
        assert len(stage.ledger) == 0


class TestNeverFits:
    def test_more_than_the_whole_cache_is_refused_at_once(self) -> None:
        stage = Stage(max_context=4096)
        stage.start("a", total_blocks=10)
        stage.workers["b"] = type(stage.workers["a"])("b", "b-i1", total_blocks=20)
        stage.publish()
        with pytest.raises(InvalidRequest) as caught:
            stage.submit(prompt=313, max_tokens=8)
        assert caught.value.code == "context_length_exceeded"
        assert "320" in caught.value.message
        stage.submit("only-b", prompt=192, max_tokens=8)
        assert stage.where("only-b") == "b"

    def test_what_an_endpoint_does_not_tell_bounds_nothing(self) -> None:
        stage = Stage()
        stage.start("a")
        stage.submit("r", prompt=10**5, max_tokens=10**5)
        assert stage.where("r") == "a"


@pytest.mark.parametrize("moment", ["queued", "dispatched", "decoding", "finished", "cancelled", "unknown"])
def test_c04_a_cancel_at_any_moment_and_again(moment: str) -> None:
    stage = Stage()
    stage.start("a", phase=WorkerPhase.STARTING if moment == "queued" else WorkerPhase.READY)
    _, sink = stage.submit("r", **PAID)
    if moment in ("decoding", "finished"):
        stage.link("a").token("r")
    if moment == "finished":
        stage.link("a").finish("r")
    if moment == "cancelled":
        stage.dispatcher.cancel("r")
    name = "nobody" if moment == "unknown" else "r"
    over = moment in ("finished", "cancelled")
    first = stage.dispatcher.cancel(name)
    assert first == CancelOutcome(name, found=moment != "unknown", already_ended=over)
    assert stage.dispatcher.cancel(name) == CancelOutcome(
        name, found=moment != "unknown", already_ended=moment != "unknown"
    )
    if moment in ("queued", "dispatched", "decoding", "cancelled"):
        assert sink.error is not None
        assert (sink.error.code, sink.error.retry) == ("request_cancelled", False)
    if moment == "queued":
        stage.start("a")
        assert stage.link("a").sent == []
    if moment != "unknown":
        assert stage.dispatcher.queued == 0
        assert len(stage.ledger) == 0
    stage.check()


TIERS = {
    name: tier | {"service": replace(tier["service"], min_share=0.0)}
    for name, tier in (("enterprise", ENTERPRISE), ("paid", PAID), ("free", FREE))
}
"""Without minimum shares, which go before the order."""

MOVES = st.lists(
    st.tuples(st.sampled_from(["arrive", "arrive", "finish", "leave", "cancel", "token"]), st.integers(0, 10**6)),
    max_size=120,
)


class OrderedLink(StageLink):
    """Looks at who is left waiting whenever a call is sent."""

    check = staticmethod(lambda request_id: None)

    def generate(self, number: int, call: object) -> None:
        super().generate(number, call)  # type: ignore[arg-type]
        self.check(call.request_id)  # type: ignore[attr-defined]


@settings(deadline=None)
@given(MOVES, st.integers(1, 3), st.integers(0, 10**6))
def test_f7_slots_are_never_exceeded_tiers_keep_their_order_and_each_ends_once(
    moves: list[tuple[str, int]], seats: int, seed: int
) -> None:
    stage, rng, numbers = Stage(queue_limit=12, queue_share=0.7, seed=seed), Random(seed), itertools.count()
    # What the engine queues is no reason to refuse: every call that has no seat waits, and order is all there is.
    stage.dispatcher.admit_by(AdmissionRules(watch=9, busy=9, reject=9, queue_limit=12, queue_share=0.7))
    stage.start("a", "b", max_num_seqs=seats)
    handles: dict[str, CallHandle] = {}
    sinks: dict[str, RecordingSink] = {}
    tier_of: dict[str, str] = {}
    gone: set[str] = set()
    reasons: set[DropReason] = set()
    for link in stage.links:
        link.__class__ = OrderedLink

        def check(request_id: str) -> None:
            tier = TIERS[tier_of[request_id]]
            waiting = [
                r for r in stage.ledger.active if r.phase is RequestPhase.QUEUED and r.call.request_id != request_id
            ]
            assert all(tier["priority"] <= r.call.priority for r in waiting if r.call.request_id in handles)
            assert all(len(link.running) <= 2 * seats for link in stage.links)

        link.check = check  # type: ignore[method-assign, attr-defined]
    for move, pick in moves:
        running = [(link, call.request_id) for link in stage.links for call in link.running.values()]
        if move == "arrive":
            name, tier = f"r{next(numbers)}", rng.choice(list(TIERS))
            tier_of[name], sink = tier, RecordingSink()
            call = stage.call(name, flow=rng.choice("xy"), **TIERS[tier])
            try:
                handles[name] = stage.dispatcher.submit(call, sink)
                sinks[name] = sink
            except InferDeckError as error:
                reasons.add(error.reason)
        elif move in ("finish", "token") and running:
            link, name = running[pick % len(running)]
            link.token(name) if move == "token" else link.finish(name)
        elif handles and move in ("leave", "cancel"):
            name = list(handles)[pick % len(handles)]
            if move == "cancel":
                stage.dispatcher.cancel(name)
            elif not sinks[name].over:
                gone.add(name)
                handles[name].cancel("client_left")
        stage.check()
    while running := [(link, call.request_id) for link in stage.links for call in link.running.values()]:
        for link, name in running:
            link.finish(name)
    assert (stage.dispatcher.queued, len(stage.ledger)) == (0, 0)
    assert reasons <= {DropReason.OVERLOADED}
    assert {name for name, sink in sinks.items() if not sink.over} == gone
    for link in stage.links:
        candidate = link.target.candidate
        assert (candidate.requests, candidate.sequences, candidate.tokens) == (0, 0, 0.0)
