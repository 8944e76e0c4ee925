from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from control_plane.contracts.admission import AdmissionRules
from control_plane.contracts.errors import (
    Conflict,
    DropReason,
    InternalError,
    InvalidRequest,
    NotFound,
    RequestCancelled,
    Unavailable,
    WorkerLost,
)
from control_plane.contracts.fleet import CancelOutcome, RequestPhase, RequestView, WorkerPhase
from control_plane.contracts.worker import Load, Stages, WorkerState
from control_plane.router.decisions import decision_view
from control_plane.router.requests import Request
from control_plane.router.scheduling.candidate import Ask, Candidate
from control_plane.router.scheduling.pickers import MaxRandomTies
from control_plane.router.scheduling.profile import Decision, Profile
from tests.unit.router.stage import RecordingSink, Stage, StageWorker


def ended(stage: Stage) -> dict[str, RequestView]:
    return {view.id: view for view in stage.ledger.take(stage.now).ended}


class TestPlacing:
    def test_a_call_goes_to_the_worker_and_its_answer_comes_back(self) -> None:
        stage = Stage()
        stage.start("a")
        handle, sink = stage.submit("r")
        assert handle.worker_id == "a"
        link = stage.link("a")
        link.token("r", "Hel")
        link.token("r", "lo")
        link.finish("r", output_tokens=3)
        assert sink.text == "Hellox"
        assert sink.done
        stage.check()
        assert stage.link("a").target.candidate.requests == 0

    def test_calls_spread_by_tokens_in_flight(self) -> None:
        stage = Stage()
        stage.start("a", "b", "c")
        for index in range(30):
            stage.submit(f"r{index}")
        assert [len(stage.link(name).running) for name in "abc"] == [10, 10, 10]
        stage.check()

    def test_a_long_prompt_counts_for_more_than_a_short_one(self) -> None:
        stage = Stage()
        stage.start("a", "b")
        stage.submit("long", prompt=1000)
        for index in range(10):
            stage.submit(f"s{index}", prompt=5)
        assert {stage.where(f"s{index}") for index in range(10)} == {"a", "b"} - {stage.where("long")}

    def test_round_robin_takes_turns(self) -> None:
        stage = Stage(profile="round_robin")
        stage.start("a", "b", "c")
        for index in range(6):
            stage.submit(f"r{index}")
        assert [stage.where(f"r{index}") for index in range(6)] == ["a", "b", "c", "a", "b", "c"]

    def test_nothing_goes_to_a_cordoned_worker_and_what_runs_there_goes_on(self) -> None:
        stage = Stage()
        stage.start("a", "b")
        for index in range(4):
            stage.submit(f"r{index}")
        stage.workers["a"].cordoned = True
        stage.publish()
        for index in range(4, 8):
            stage.submit(f"r{index}")
            assert stage.where(f"r{index}") == "b"
        link = stage.link("a")
        first = next(iter(link.running.values())).request_id
        link.token(first)
        link.finish(first)
        assert ended(stage)[first].phase is RequestPhase.FINISHED

    @pytest.mark.parametrize("state", [WorkerState.DRAINING, WorkerState.ASLEEP, WorkerState.WAKING])
    def test_a_worker_that_says_it_takes_none_gets_nothing_new(self, state: WorkerState) -> None:
        stage = Stage()
        stage.start("a", "b")
        stage.workers["a"].load = Load("a-i1", stage.now, state)
        stage.publish()
        for index in range(4):
            stage.submit(f"r{index}")
            assert stage.where(f"r{index}") == "b"

    def test_every_score_is_kept(self) -> None:
        stage = Stage()
        stage.start("a", "b")
        stage.workers["b"].cordoned = True
        stage.publish()
        stage.submit("r")
        kept = stage.dispatcher.placement.decisions.last
        assert kept.chosen == "a"
        assert ([values[0] for values in kept.rows], kept.columns, kept.totals) == (["a"], [[1.0]], [1.0])
        assert [(reason, values[0]) for reason, values in kept.left_out] == [("cordoned", "b")]

    def test_every_attempt_of_a_request_is_kept_and_so_is_what_it_waited_for(self) -> None:
        stage = Stage()
        # It is placed, in vain, only where admission does not keep it from that.
        stage.dispatcher.admit_by(AdmissionRules(watch=9, busy=9, reject=9))
        stage.start("a", "b", max_num_seqs=1)
        stage.workers["b"].cordoned = True
        stage.publish()
        stage.submit("first")
        stage.submit("second")
        stage.submit("third")
        stage.advance(2.5)
        stage.workers["b"].cordoned = False
        stage.publish()
        stage.link("b").token("third")
        stage.link("b").down()
        stage.link("a").finish("first")
        decisions = [decision_view(kept, "g1") for kept in stage.dispatcher.placement.decisions.of("third")]
        assert [(each.attempt, each.chosen) for each in decisions] == [(1, ""), (1, "b"), (2, ""), (2, "a")]
        waited, placed, lost, again = decisions
        assert waited.rejected_by == {"cordoned": 1, "full": 1}
        assert waited.looks == placed.looks - 1 > 0
        assert placed.waited_s == 2.5
        assert (lost.continued_tokens, again.continued_tokens) == (1, 1)
        assert again.number > lost.number > placed.number > waited.number

    def test_an_id_in_use_is_a_conflict(self) -> None:
        stage = Stage()
        stage.start("a")
        stage.submit("r")
        with pytest.raises(Conflict):
            stage.submit("r")
        stage.check()


class TestRefusals:
    def test_an_unknown_model_is_404_and_no_worker_hears_of_it(self) -> None:
        stage = Stage()
        stage.start("a")
        with pytest.raises(NotFound) as caught:
            stage.submit(model="nope")
        assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
        assert stage.link("a").sent == []

    def test_before_the_fleet_has_spoken_it_is_503_not_404(self) -> None:
        with pytest.raises(Unavailable):
            Stage().submit()

    @pytest.mark.parametrize(("api", "param"), [("chat", "messages"), ("completions", "prompt")])
    def test_a_call_longer_than_the_context_is_refused_with_the_numbers(self, api: str, param: str) -> None:
        stage = Stage(max_context=100)
        stage.start("a")
        with pytest.raises(InvalidRequest) as caught:
            stage.submit(prompt=93, max_tokens=8, api=api)
        assert (caught.value.code, caught.value.param) == ("context_length_exceeded", param)
        assert "100" in caught.value.message
        assert "93" in caught.value.message
        stage.submit("fits", prompt=92, max_tokens=8)
        assert stage.link("a").sent == ["fits"]

    def test_the_workers_context_counts_where_the_fleet_names_none(self) -> None:
        stage = Stage()
        stage.start("a", max_context=50)
        with pytest.raises(InvalidRequest):
            stage.submit(prompt=50, max_tokens=1)

    def test_what_the_worker_holds_against_the_call_is_the_callers_fault_and_not_retried(self) -> None:
        stage = Stage()
        stage.start("a", "b")
        _, sink = stage.submit("r")
        here = stage.where("r")
        stage.link(here).fail("r", "invalid_request", "no such token", "logit_bias")
        assert isinstance(sink.error, InvalidRequest)
        assert sink.error.param == "logit_bias"
        assert sum(len(link.sent) for link in stage.links) == 1
        for index in range(20):
            stage.submit(f"s{index}")
        assert len(stage.link(here).running) == 10, "a caller's mistakes do not trip the circuit"


class TestWaiting:
    def test_a_call_waits_until_a_worker_is_ready(self) -> None:
        stage = Stage()
        stage.start("a", phase=WorkerPhase.STARTING)
        handle, sink = stage.submit("r")
        assert handle.worker_id == ""
        assert stage.dispatcher.queued == 1
        stage.advance(5)
        stage.start("a")
        assert handle.worker_id == "a"
        assert stage.dispatcher.queued == 0
        stage.link("a").finish("r")
        assert sink.done
        assert [s.duration_s for s in ended(stage)["r"].stages if s.name == "queue"] == [5.0]

    def test_first_come_first_served(self) -> None:
        stage = Stage()
        stage.start("a", phase=WorkerPhase.STARTING)
        for index in range(5):
            stage.submit(f"r{index}")
        stage.start("a")
        assert stage.link("a").sent == [f"r{index}" for index in range(5)]

    @pytest.mark.parametrize(
        ("phase", "reason", "words"),
        [
            (WorkerPhase.STARTING, DropReason.MODEL_LOADING, "still loading"),
            (WorkerPhase.FAILED, DropReason.NO_CAPACITY, "none can be reached"),
            (WorkerPhase.ASLEEP, DropReason.NO_CAPACITY, "they are asleep"),
        ],
    )
    def test_the_deadline_says_why_nothing_came(self, phase: WorkerPhase, reason: DropReason, words: str) -> None:
        stage = Stage(queue_timeout_s=30)
        stage.start("a", phase=phase)
        _, sink = stage.submit("r")
        stage.advance(29.9)
        assert not sink.over
        stage.advance(0.2)
        assert isinstance(sink.error, Unavailable)
        assert sink.error.reason is reason
        assert words in sink.error.message
        assert ended(stage)["r"].phase is RequestPhase.FAILED
        assert stage.dispatcher.queued == 0

    @pytest.mark.parametrize("own", [0.0, 5.0, 60.0])
    def test_a_call_may_have_a_deadline_of_its_own(self, own: float) -> None:
        stage = Stage(queue_timeout_s=30)
        stage.start("a", phase=WorkerPhase.STARTING)
        call, sink = replace(stage.call("r"), queue_timeout_s=own), RecordingSink()
        stage.dispatcher.submit(call, sink)
        if own:
            stage.advance(own - 0.1)
            assert not sink.over
        stage.advance(0.2)
        assert isinstance(sink.error, Unavailable)

    def test_a_model_without_workers_waits_too(self) -> None:
        stage = Stage(queue_timeout_s=1)
        stage.start("a")
        _, sink = stage.submit("r", model="other")
        stage.advance(2)
        assert sink.error is not None
        assert sink.error.reason is DropReason.NO_CAPACITY
        assert stage.link("a").sent == []

    def test_the_queue_is_bounded(self) -> None:
        stage = Stage(queue_limit=2)
        stage.start("a", phase=WorkerPhase.STARTING)
        stage.submit("r1")
        stage.submit("r2")
        with pytest.raises(Unavailable) as caught:
            stage.submit("r3")
        assert caught.value.reason is DropReason.OVERLOADED
        assert ended(stage)["r3"].reason == "overloaded"
        assert len(stage.ledger) == 2

    def test_a_full_queue_does_not_stop_a_call_that_need_not_wait(self) -> None:
        stage = Stage(queue_limit=0)
        stage.start("a")
        handle, _ = stage.submit("r")
        assert handle.worker_id == "a"

    def test_a_call_that_was_cancelled_while_it_waited_never_reaches_a_worker(self) -> None:
        stage = Stage()
        stage.start("a", phase=WorkerPhase.STARTING)
        handle, sink = stage.submit("gone")
        stage.submit("stays")
        handle.cancel("client_left")
        assert stage.dispatcher.queued == 1
        handle.cancel("client_left")
        stage.start("a")
        assert stage.link("a").sent == ["stays"]
        assert not sink.over
        view = ended(stage)["gone"]
        assert (view.phase, view.reason, view.worker_id) == (RequestPhase.CANCELLED, "client_left", "")

    def test_a_full_worker_gets_the_next_call_when_one_ends(self) -> None:
        """One seat and one in the engine's own queue; the others wait here, and one of them leaves."""
        stage = Stage()
        stage.start("a", max_num_seqs=1)
        for name in ("r1", "r2"):
            stage.submit(name)
        leaver, _ = stage.submit("leaver")
        stage.submit("r3")
        link = stage.link("a")
        assert link.sent == ["r1", "r2"]
        leaver.cancel("client_left")
        link.finish("r1")
        assert link.sent == ["r1", "r2", "r3"]
        stage.check()

    def test_a_full_pool_is_overloaded_at_the_deadline(self) -> None:
        stage = Stage(queue_timeout_s=3)
        stage.start("a", max_num_seqs=1)
        for name in ("r1", "r2", "r3"):
            _, sink = stage.submit(name)
        stage.advance(4)
        assert sink.error is not None
        assert sink.error.reason is DropReason.OVERLOADED

    def test_what_other_routers_hold_fills_a_worker_too(self) -> None:
        stage = Stage()
        stage.start("a", max_num_seqs=2)
        stage.workers["a"].load = Load("a-i1", stage.now, WorkerState.READY, running=2, waiting=2)
        stage.publish()
        stage.submit("r")
        assert stage.dispatcher.queued == 1
        stage.advance(5)
        assert stage.link("a").sent == ["r"], "a stale sample does not keep calls waiting for ever"


class TestRefusedByTheWorker:
    @pytest.mark.parametrize("code", ["draining", "overloaded", "no_capacity", "model_loading"])
    def test_it_goes_elsewhere(self, code: str) -> None:
        stage = Stage()
        stage.start("a", "b")
        _, sink = stage.submit("r")
        first = stage.where("r")
        stage.link(first).fail("r", code)
        assert stage.where("r") == ({"a", "b"} - {first}).pop()
        assert not sink.over
        stage.check()

    def test_it_waits_where_there_is_no_other_and_is_tried_again(self) -> None:
        stage = Stage()
        stage.start("a")
        _, sink = stage.submit("r")
        stage.link("a").fail("r", "overloaded")
        assert stage.dispatcher.queued == 1
        stage.advance(0.3)
        assert stage.link("a").sent == ["r", "r"]
        stage.link("a").finish("r")
        assert sink.done

    def test_one_at_a_time_after_a_refusal_and_all_once_it_went_well(self) -> None:
        stage = Stage()
        stage.start("a")
        for index in range(4):
            stage.submit(f"r{index}")
        link = stage.link("a")
        for index in range(4):
            link.fail(f"r{index}", "overloaded")
        stage.advance(0.3)
        assert link.sent[4:] == ["r0"]
        link.token("r0")
        assert link.sent[4:] == ["r0", "r1", "r2", "r3"]

    def test_a_place_that_comes_free_ends_the_refusal(self) -> None:
        stage = Stage()
        stage.start("a")
        stage.submit("r1")
        link = stage.link("a")
        link.token("r1")
        stage.submit("r2")
        link.fail("r2", "overloaded")
        link.finish("r1")
        assert link.sent == ["r1", "r2", "r2"]

    def test_refused_until_the_deadline_it_is_overloaded(self) -> None:
        stage = Stage(queue_timeout_s=2)
        stage.start("a")
        _, sink = stage.submit("r")
        link = stage.link("a")
        for _ in range(30):
            if link.running:
                link.fail("r", "overloaded")
            stage.advance(0.1)
        assert sink.error is not None
        assert sink.error.reason is DropReason.OVERLOADED
        assert stage.now - 1000 >= 2


class TestLoss:
    def test_before_the_first_token_it_is_retried_elsewhere_silently(self) -> None:
        stage = Stage()
        stage.start("a", "b")
        handle, sink = stage.submit("r")
        first = stage.where("r")
        stage.link(first).down()
        second = ({"a", "b"} - {first}).pop()
        assert handle.worker_id == second
        stage.link(second).finish("r")
        assert sink.done
        view = ended(stage)["r"]
        assert (view.retries, view.worker_id, view.phase) == (1, second, RequestPhase.FINISHED)
        stage.check()

    def test_after_the_first_token_it_goes_on_from_there(self) -> None:
        """S06: no token comes twice, and the client hears of nothing."""
        stage = Stage()
        stage.start("a", "b")
        _, sink = stage.submit("r")
        first = stage.where("r")
        [asked] = stage.link(first).running.values()
        for _ in range(3):
            stage.link(first).token("r")
        said = [token for delta in sink.deltas for token in delta.token_ids]
        stage.advance(1.0)
        stage.link(first).down()
        assert not sink.over
        second = stage.where("r")
        assert second not in ("", first)
        [resumed] = stage.link(second).running.values()
        assert resumed.resumed == 3
        assert list(resumed.prompt_token_ids) == [*asked.prompt_token_ids, *said]
        assert resumed.sampling == asked.sampling
        stage.link(second).token("r")
        stage.link(second).finish("r", 4)
        assert sink.error is None
        assert len(sink.deltas) == 5
        view = ended(stage)["r"]
        assert (view.output_tokens, view.phase, view.retries) == (4, RequestPhase.FINISHED, 1)
        assert view.prompt_tokens == len(asked.prompt_token_ids)
        assert [s.name for s in view.stages if s.name in ("decode", "queue")] == ["queue", "decode", "queue", "decode"]
        told = [s.worker_id for s in view.stages if s.name not in ("queue", "worker_queue")]
        assert told == [first, first, first, "", "", ""], "what came to nothing says whose it was"
        assert all(stage.duration_s >= 0 for stage in view.stages)
        stage.check()

    def test_it_goes_on_more_than_once_within_the_budget(self) -> None:
        stage = Stage(retries=2)
        stage.start("a", "b", "c", "d")
        _, sink = stage.submit("r")
        for count in (1, 2, 3):
            link = stage.link(stage.where("r"))
            link.token("r")
            [call] = link.running.values()
            assert call.resumed == count - 1
            link.down()
        assert isinstance(sink.error, WorkerLost)
        assert sink.error.code == "worker_lost"
        assert "after 3 tokens" in sink.error.message
        view = ended(stage)["r"]
        assert (view.output_tokens, view.reason, view.phase) == (3, "worker_lost", RequestPhase.FAILED)
        stage.check()

    @pytest.mark.parametrize(
        ("sampling", "words"),
        [
            ({"n": 2}, "several choices"),
            ({"json_object": True}, "a grammar"),
            ({"json_schema": "{}"}, "a grammar"),
            ({"presence_penalty": 0.5}, "presence_penalty"),
            ({"frequency_penalty": -0.5}, "frequency_penalty"),
            ({"max_tokens": 1}, "only the end"),
        ],
    )
    def test_what_cannot_go_on_right_ends_with_the_reason(self, sampling: dict[str, object], words: str) -> None:
        stage = Stage()
        stage.start("a", "b")
        _, sink = stage.submit("r", **sampling)
        first = stage.link(stage.where("r"))
        first.token("r")
        first.down()
        assert isinstance(sink.error, WorkerLost)
        assert words in sink.error.message
        stage.check()

    def test_a_busy_worker_makes_it_wait_not_fail(self) -> None:
        stage = Stage()
        stage.start("a", "b")
        _, sink = stage.submit("r")
        first = stage.where("r")
        stage.link(first).token("r")
        stage.link(first).down()
        second = stage.where("r")
        stage.link(second).fail("r", DropReason.OVERLOADED)
        assert not sink.over
        stage.advance(1.0)
        assert stage.where("r") == second
        [call] = stage.link(second).running.values()
        assert call.resumed == 1

    def test_without_another_worker_it_waits_and_then_says_how_far_it_came(self) -> None:
        stage = Stage(queue_timeout_s=5)
        stage.start("a")
        _, sink = stage.submit("r")
        stage.link("a").token("r")
        stage.link("a").down()
        assert not sink.over
        stage.advance(6)
        assert isinstance(sink.error, WorkerLost)
        assert "after 1 tokens" in sink.error.message
        stage.check()

    def test_what_an_engine_failed_on_in_mid_answer_does_not_go_on(self) -> None:
        stage = Stage()
        stage.start("a", "b")
        _, sink = stage.submit("r")
        link = stage.link(stage.where("r"))
        link.token("r")
        link.fail("r", DropReason.INTERNAL_ERROR)
        assert isinstance(sink.error, InternalError)
        stage.check()

    def test_never_again_on_the_same_instance(self) -> None:
        stage = Stage(queue_timeout_s=5)
        stage.start("a")
        _, sink = stage.submit("r")
        link = stage.link("a")
        link.down()
        stage.advance(1)
        link.up()
        assert link.sent == ["r"]
        stage.submit("fresh")
        assert link.sent == ["r", "fresh"], "one that can't be placed does not hold up the others"
        stage.publish(StageWorker("a", "a-i2"))
        assert stage.link("a").sent == ["r", "fresh"]
        assert not sink.over

    def test_the_budget_is_other_workers(self) -> None:
        stage = Stage(retries=2)
        stage.start("a", "b", "c", "d")
        _, sink = stage.submit("r")
        visited = []
        for _ in range(3):
            visited.append(stage.where("r"))
            stage.link(visited[-1]).down()
        assert len(set(visited)) == 3
        assert isinstance(sink.error, WorkerLost)
        assert sink.error.retry is False, "a client that repeats it by itself would kill the next ones"
        assert "3 workers" in sink.error.message

    def test_an_instance_that_was_replaced_takes_its_calls_with_it(self) -> None:
        stage = Stage()
        stage.start("a")
        _, started = stage.submit("started")
        stage.link("a").token("started")
        stage.submit("fresh")
        old = stage.link("a")
        stage.publish(StageWorker("a", "a-i2"))
        assert old.closed
        assert not started.over
        assert stage.link("a").sent == ["started", "fresh"]
        stage.check()

    def test_a_process_that_ended_takes_its_calls_with_it(self) -> None:
        stage = Stage()
        stage.start("a", "b")
        _, sink = stage.submit("r")
        first = stage.where("r")
        stage.workers[first].phase = WorkerPhase.FAILED
        stage.publish()
        assert stage.where("r") not in ("", first)
        assert not sink.over

    def test_missed_heartbeats_do_not_end_a_stream(self) -> None:
        stage = Stage()
        stage.start("a", "b")
        _, sink = stage.submit("r")
        here = stage.where("r")
        stage.workers[here].phase = WorkerPhase.LOST
        stage.publish()
        stage.submit("next")
        assert stage.where("next") != here
        stage.link(here).token("r")
        stage.link(here).finish("r")
        assert sink.done

    def test_an_engine_that_died_is_a_lost_worker_and_is_left_alone(self) -> None:
        stage = Stage()
        stage.start("a", "b")
        _, sink = stage.submit("r")
        first = stage.where("r")
        stage.link(first).fail("r", "engine_dead", "the engine died: oom")
        second = stage.where("r")
        assert second not in ("", first)
        for index in range(5):
            stage.submit(f"s{index}")
        assert len(stage.link(second).running) == 6
        stage.link(second).fail("r", "engine_dead", "the engine died: oom")
        stage.advance(31)
        assert sink.error is not None
        assert "oom" not in sink.error.message

    def test_the_only_worker_that_says_it_dies_is_waited_for(self) -> None:
        stage = Stage()
        stage.start("a")
        _, sink = stage.submit("r")
        stage.link("a").fail("r", "engine_dead")
        assert not sink.over
        stage.link("a").down()
        stage.publish(StageWorker("a", "a-i2"))
        stage.link("a").finish("r")
        assert sink.done

    def test_an_error_of_the_engine_is_tried_elsewhere_and_then_told(self) -> None:
        stage = Stage(retries=1)
        stage.start("a", "b")
        _, sink = stage.submit("r")
        for _ in range(2):
            stage.link(stage.where("r")).fail("r", "internal_error", "secret trace")
        assert isinstance(sink.error, InternalError)
        assert "secret" not in sink.error.message
        stage.check()

    def test_an_error_of_every_engine_there_is_is_told_at_once(self) -> None:
        stage = Stage(retries=5)
        stage.start("a", "b")
        _, sink = stage.submit("r")
        for _ in range(2):
            assert not sink.over
            stage.link(stage.where("r")).fail("r", "internal_error")
        assert isinstance(sink.error, InternalError)
        assert "2 workers" in sink.error.message

    def test_three_errors_in_a_row_open_the_circuit_and_one_good_call_closes_it(self) -> None:
        stage = Stage(retries=0)
        stage.start("a")
        link = stage.link("a")
        for index in range(3):
            stage.submit(f"r{index}")
            link.fail(f"r{index}", "internal_error")
        stage.submit("w1")
        stage.submit("w2")
        assert link.running == {}
        stage.advance(1)
        assert link.sent[3:] == ["w1"]
        link.token("w1")
        assert link.sent[3:] == ["w1", "w2"]

    def test_one_plain_call_of_many_choices_that_gave_one_choice_is_not_repeated(self) -> None:
        stage = Stage()
        stage.start("a", "b")
        _, sink = stage.submit("r", n=2, stream=False)
        link = stage.link(stage.where("r"))
        link.token("r", "whole choice", choice=1, tokens=5)
        link.down()
        assert isinstance(sink.error, WorkerLost)


class TestFleetSets:
    def test_a_set_that_leaves_a_worker_out_does_not_cut_its_streams(self) -> None:
        stage = Stage()
        stage.start("a", "b")
        handle, sink = stage.submit("r")
        here = handle.worker_id
        other = ({"a", "b"} - {here}).pop()
        link = stage.link(here)
        stage.start(other)
        assert not link.closed
        link.token("r")
        link.finish("r")
        assert sink.done
        assert link.closed, "when nothing runs there any more the link goes too"

    def test_a_worker_that_comes_back_into_the_set_is_the_same_target(self) -> None:
        """A control plane that has just started may not know yet whom it adopts."""
        stage = Stage()
        stage.start("a")
        _, sink = stage.submit("r")
        link = stage.link("a")
        stage.workers = {}
        stage.publish()
        stage.submit("waits")
        assert stage.dispatcher.queued == 1
        stage.start("a")
        assert len(stage.links) == 1
        assert link.sent == ["r", "waits"]
        link.finish("r")
        assert sink.done
        stage.check()

    def test_a_worker_without_an_instance_id_keeps_the_one_that_is_known(self) -> None:
        stage = Stage()
        stage.start("a")
        _, sink = stage.submit("r")
        stage.publish(StageWorker("a", "", phase=WorkerPhase.STARTING))
        stage.link("a").token("r")
        stage.start("a")
        stage.link("a").finish("r")
        assert sink.done
        assert len(stage.links) == 1

    def test_an_idle_worker_that_left_is_let_go(self) -> None:
        stage = Stage()
        stage.start("a", "b")
        link = stage.link("a")
        stage.start("b")
        assert link.closed

    def test_models_count_workers_that_can_be_reached(self) -> None:
        stage = Stage(connect=False)
        stage.start("a", "b")
        assert {view.name: view.ready_workers for view in stage.dispatcher.catalogue.all()} == {"tiny": 0, "other": 0}
        assert not stage.dispatcher.catalogue.any_ready()
        stage.link("a").up()
        assert stage.dispatcher.catalogue.all()[0].ready_workers == 1
        assert stage.dispatcher.catalogue.any_ready()
        stage.workers["a"].cordoned = True
        stage.publish()
        assert not stage.dispatcher.catalogue.any_ready()

    def test_an_unreachable_worker_is_left_out_until_it_answers(self) -> None:
        stage = Stage(connect=False)
        stage.start("a", "b")
        stage.link("a").up()
        waits = [stage.link("b").down() for _ in range(8)]
        assert waits == sorted(waits)
        assert waits[0] < 1 < waits[-1] <= 5
        for index in range(4):
            stage.submit(f"r{index}")
        assert len(stage.link("a").running) == 4
        stage.advance(6)
        stage.link("b").up()
        stage.submit("trial")
        stage.submit("next")
        assert list(stage.link("b").sent) == ["trial"], "after several failures one call goes first"
        stage.link("b").token("trial")
        stage.submit("more")
        assert stage.where("more") == "b"


class TripsOver:
    """Fails on prompts of 13 tokens."""

    name = "trips_over"

    def score(self, ask: Ask, candidates: Sequence[Candidate], now: float) -> Sequence[float]:
        if ask.prompt_tokens == 13:
            raise ZeroDivisionError
        return [1.0] * len(candidates)


class TestWhatNobodyExpected:
    @pytest.fixture
    def stage(self) -> Stage:
        stage = Stage()
        stage.start("a", max_num_seqs=1)
        stage.dispatcher.placement.profile = Profile("p", ((TripsOver(), 1.0),), MaxRandomTies(Random(1)))
        return stage

    def test_a_call_that_a_scorer_fails_on_is_refused_and_nobody_holds_it(self, stage: Stage) -> None:
        with pytest.raises(InternalError):
            stage.submit("bad", prompt=13)
        stage.check()
        assert len(stage.ledger) == 0
        assert ended(stage)["bad"].phase is RequestPhase.FAILED

    def test_one_that_waits_fails_and_does_not_hold_up_the_others(self, stage: Stage) -> None:
        for name in ("r1", "r2"):
            stage.submit(name)
        _, bad = stage.submit("bad", prompt=13)
        _, good = stage.submit("good")
        stage.link("a").finish("r1")
        stage.link("a").finish("r2")
        assert isinstance(bad.error, InternalError)
        assert good.error is None
        assert stage.where("good") == "a"
        stage.check()

    def test_a_lost_worker_hands_on_all_calls_but_the_one_that_cannot_be(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        again = stage.dispatcher._lobby.again

        def trip(request: Request, now: float) -> None:
            if request.call.request_id == "bad":
                raise ZeroDivisionError
            again(request, now)

        monkeypatch.setattr(stage.dispatcher._lobby, "again", trip)
        _, bad = stage.submit("bad")
        _, good = stage.submit("good")
        assert stage.link("a").down() > 0
        assert isinstance(bad.error, InternalError)
        assert good.error is None
        assert [request.call.request_id for request in stage.ledger.active] == ["good"]
        assert ended(stage)["bad"].phase is RequestPhase.FAILED
        stage.start("b")
        assert stage.where("good") == "b"

    def test_a_call_that_could_not_be_taken_in_is_held_by_nobody(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        send = stage.dispatcher._lobby._send

        def trip(request: Request) -> Decision:
            send(request)
            raise ZeroDivisionError

        with monkeypatch.context() as patch:
            patch.setattr(stage.dispatcher._lobby, "_send", trip)
            with pytest.raises(ZeroDivisionError):
                stage.submit("r")
        assert len(stage.ledger) == 0
        assert stage.link("a").aborted == ["r"]
        stage.check()

    def test_those_that_wait_are_looked_at_again_after_a_look_that_failed(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("r1", "r2", "waits"):
            stage.submit(name)

        def trip(model: str) -> None:
            raise ZeroDivisionError

        with monkeypatch.context() as patch:
            patch.setattr(stage.dispatcher._lobby, "drain", trip)
            with pytest.raises(ZeroDivisionError):
                stage.advance(1)
        assert stage.tick_at is not None

    def test_one_that_failed_on_its_way_runs_nowhere(self, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        again = stage.dispatcher._lobby.again

        def trip(request: Request, now: float) -> None:
            again(request, now)
            raise ZeroDivisionError

        stage.start("a", "b")
        monkeypatch.setattr(stage.dispatcher._lobby, "again", trip)
        _, sink = stage.submit("r")
        here = stage.where("r")
        stage.link(here).down()
        assert isinstance(sink.error, InternalError)
        assert stage.link("b" if here == "a" else "a").aborted == ["r"]
        stage.check()


class TestCancel:
    def test_a_client_that_left_frees_the_worker_and_hears_nothing(self) -> None:
        stage = Stage()
        stage.start("a")
        handle, sink = stage.submit("r")
        stage.link("a").token("r")
        handle.cancel("client_left")
        handle.cancel("client_left")
        assert stage.link("a").aborted == ["r"]
        assert not sink.over
        stage.check()
        assert ended(stage)["r"].output_tokens == 1

    @pytest.mark.parametrize("tokens", [0, 3])
    def test_what_a_call_has_used_is_told_at_once_where_no_worker_has_it(self, tokens: int) -> None:
        stage = Stage()
        stage.start("a")
        handle, _ = stage.submit("r")
        for _ in range(tokens):
            stage.link("a").token("r")
        stage.link("a").down()
        assert stage.dispatcher.queued == 1
        told: list[int] = []
        handle.cancel("client_left", told.append)
        handle.cancel("client_left", told.append)
        assert told == [tokens]

    def test_what_a_call_has_used_is_told_by_the_worker_that_has_it(self) -> None:
        stage = Stage()
        stage.start("a")
        handle, _ = stage.submit("r")
        target = stage.link("a").target
        (number,) = target.calls
        told: list[int] = []
        handle.cancel("client_left", told.append)
        assert told == []
        target.ended(number, 7)
        assert told == [7]

    @pytest.mark.parametrize("end", ["told", "lost"])
    def test_a_worker_that_leaves_is_heard_out(self, end: str) -> None:
        stage = Stage()
        stage.start("a", "b")
        handle, _ = stage.submit("r")
        link = stage.link(stage.where("r"))
        (number,) = link.target.calls
        stage.publish(*(worker for name, worker in stage.workers.items() if name != link.target.worker_id))
        told: list[int] = []
        handle.cancel("client_left", told.append)
        assert not link.closed
        if end == "told":
            link.target.ended(number, 7)
        else:
            link.down()
        assert told == ([7] if end == "told" else [])
        assert link.closed
        assert link.target not in stage.dispatcher.targets.all()

    def test_a_worker_that_failed_is_not_waited_for(self) -> None:
        stage = Stage()
        stage.start("a")
        handle, _ = stage.submit("r")
        told: list[int] = []
        handle.cancel("client_left", told.append)
        stage.start("a", phase=WorkerPhase.FAILED)
        stage.start("b")
        assert [target.worker_id for target in stage.dispatcher.targets.all()] == ["b"]
        assert told == []

    @pytest.mark.parametrize("tokens", [0, 3])
    def test_an_operator_ends_a_running_request(self, tokens: int) -> None:
        stage = Stage()
        stage.start("a")
        _, sink = stage.submit("r")
        for _ in range(tokens):
            stage.link("a").token("r")
        assert stage.dispatcher.cancel("r") == CancelOutcome("r", found=True)
        assert isinstance(sink.error, RequestCancelled)
        assert (sink.error.code, sink.error.retry) == ("request_cancelled", False)
        assert stage.link("a").aborted == ["r"]
        assert stage.dispatcher.cancel("r") == CancelOutcome("r", found=True, already_ended=True)
        view = ended(stage)["r"]
        assert (view.phase, view.reason, view.output_tokens) == (RequestPhase.CANCELLED, "request_cancelled", tokens)

    def test_an_operator_ends_a_waiting_request_which_never_starts(self) -> None:
        stage = Stage()
        stage.start("a", phase=WorkerPhase.STARTING)
        _, sink = stage.submit("r")
        stage.dispatcher.cancel("r")
        assert isinstance(sink.error, RequestCancelled)
        stage.start("a")
        assert stage.link("a").sent == []

    def test_finished_is_known_and_unknown_is_not(self) -> None:
        stage = Stage()
        stage.start("a")
        stage.submit("r")
        stage.link("a").finish("r")
        assert stage.dispatcher.cancel("r") == CancelOutcome("r", found=True, already_ended=True)
        assert stage.dispatcher.cancel("nobody") == CancelOutcome("nobody", found=False)

    def test_aborted_at_the_worker_by_somebody_else_is_a_cancel(self) -> None:
        stage = Stage()
        stage.start("a", "b")
        _, sink = stage.submit("r")
        here = stage.where("r")
        stage.link(here).token("r")
        stage.link(here).aborted_outside("r")
        assert isinstance(sink.error, RequestCancelled)
        assert ended(stage)["r"].phase is RequestPhase.CANCELLED

    def test_a_place_that_a_cancel_frees_goes_to_the_next(self) -> None:
        stage = Stage()
        stage.start("a", max_num_seqs=1)
        handle, _ = stage.submit("r1")
        stage.submit("r2")
        stage.submit("r3")
        handle.cancel("client_left")
        assert stage.link("a").sent == ["r1", "r2", "r3"]

    def test_a_place_that_an_abort_at_the_worker_frees_goes_to_the_next(self) -> None:
        stage = Stage()
        stage.start("a", max_num_seqs=1)
        for name in ("r1", "r2", "r3"):
            stage.submit(name)
        stage.link("a").aborted_outside("r1")
        assert stage.link("a").sent == ["r1", "r2", "r3"]

    def test_a_place_goes_to_the_next_even_if_the_last_delta_breaks_its_sink(self) -> None:
        stage = Stage()
        stage.start("a", max_num_seqs=1)
        _, sink = stage.submit("r1")
        stage.submit("r2")
        stage.submit("r3")
        sink.error = RequestCancelled("it refuses what comes now")
        with pytest.raises(AssertionError):
            stage.link("a").finish("r1")
        assert stage.link("a").sent == ["r1", "r2", "r3"]
        stage.check()

    def test_a_call_that_cannot_be_sent_is_refused_and_nobody_holds_it(self) -> None:
        stage = Stage()
        stage.start("a")
        stage.link("a").unsendable.add("bad")
        with pytest.raises(InternalError):
            stage.submit("bad")
        stage.check()
        assert stage.ledger.find("bad") is None
        assert ended(stage)["bad"].phase is RequestPhase.FAILED
        assert stage.dispatcher.placement.decisions.last.chosen == "a"

    def test_a_waiting_call_that_cannot_be_sent_fails_and_does_not_hold_up_the_others(self) -> None:
        stage = Stage()
        stage.start("a", max_num_seqs=1)
        stage.link("a").unsendable.add("bad")
        for name in ("r1", "r2"):
            stage.submit(name)
        _, bad = stage.submit("bad")
        _, good = stage.submit("good")
        stage.link("a").finish("r1")
        stage.link("a").finish("r2")
        assert isinstance(bad.error, InternalError)
        assert good.error is None
        assert stage.where("good") == "a"
        assert stage.dispatcher.queued == 0
        stage.check()

    def test_a_call_that_cannot_be_sent_again_fails(self) -> None:
        stage = Stage()
        stage.start("a", "b")
        _, sink = stage.submit("r")
        here = stage.where("r")
        stage.link("b" if here == "a" else "a").unsendable.add("r")
        stage.link(here).down()
        assert isinstance(sink.error, InternalError)
        stage.check()

    def test_a_sink_that_breaks_ends_its_call_only(self) -> None:
        stage = Stage()
        stage.start("a")
        stage.submit("bad")
        _, good = stage.submit("good")
        request = stage.ledger.find("bad")
        assert request is not None
        stage.dispatcher.sink_broke(request)
        assert stage.link("a").aborted == ["bad"]
        stage.link("a").finish("good")
        assert good.done

    @pytest.mark.parametrize("end", ["loss", "deadline", "close"])
    def test_a_sink_may_cancel_others_while_it_is_told_of_its_end(self, end: str) -> None:
        stage = Stage(retries=0, queue_timeout_s=1)
        stage.start("a", phase=WorkerPhase.STARTING if end == "deadline" else WorkerPhase.READY)
        first, sink = stage.submit("first")
        second, other = stage.submit("second")
        sink.on_end = lambda: second.cancel("together")
        other.on_end = lambda: first.cancel("together")
        if end == "loss":
            stage.link("a").down()
        elif end == "deadline":
            stage.advance(2)
        else:
            stage.dispatcher.close()
        assert sink.over is not other.over
        assert len(stage.ledger) == 0
        assert len(ended(stage)) == 2

    def test_close_tells_everyone(self) -> None:
        stage = Stage()
        stage.start("a")
        _, running = stage.submit("r1")
        _, waiting = stage.submit("r2", model="other")
        stage.dispatcher.close()
        for sink in (running, waiting):
            assert sink.error is not None
            assert sink.error.reason is DropReason.DRAINING
        assert all(link.closed for link in stage.links)
        with pytest.raises(Unavailable):
            stage.submit("r3")
        assert len(stage.ledger) == 0


class TestViews:
    def test_stages_follow_each_other_and_ttft_is_from_arrival(self) -> None:
        stage = Stage()
        stage.start("a", phase=WorkerPhase.STARTING)
        stage.submit("r", prompt=4, max_tokens=9)
        stage.now += 2.0
        stage.start("a")
        stage.now += 1.0
        stage.link("a").token("r")
        stage.now += 0.1
        stage.link("a").token("r")
        stage.now += 0.1
        stage.link("a").finish("r", 3, Stages(queued_s=0.2, prefill_s=0.8, decode_s=0.2), cached=2)
        view = ended(stage)["r"]
        assert view.ttft_s == pytest.approx(3.0)
        assert view.itl_p50_s == pytest.approx(0.1, rel=0.03)
        assert view.duration_s == pytest.approx(3.2)
        assert (view.prompt_tokens, view.cached_tokens, view.output_tokens, view.max_tokens) == (4, 2, 3, 9)
        assert (view.gateway_id, view.key_id, view.api, view.model) == ("g1", "k1", "chat", "tiny")
        spans = [(s.name, round(s.start_s, 6), round(s.duration_s, 6)) for s in view.stages]
        assert spans == [
            ("queue", 0.0, 2.0),
            ("route", 2.0, 0.0),
            ("worker_queue", 2.0, 0.2),
            ("prefill", 2.2, 0.8),
            ("decode", 3.0, 0.2),
        ]

    def test_a_request_that_goes_on_or_was_cut_off_has_the_stages_that_the_router_saw(self) -> None:
        stage = Stage()
        stage.start("a")
        handle, _ = stage.submit("r", max_tokens=9, n=2)
        stage.now += 1.0
        stage.link("a").token("r")
        stage.now += 0.5
        (running,) = stage.ledger.take(stage.now).active
        assert running.max_tokens == 18, "of both choices"
        assert [(s.name, s.start_s, s.duration_s) for s in running.stages][-1] == ("first_token", 0.0, 1.0)
        handle.cancel("client_left")
        stages = {s.name: (s.start_s, s.duration_s) for s in ended(stage)["r"].stages}
        assert (stages["first_token"], stages["decode"]) == ((0.0, 1.0), (1.0, 0.5))

    @pytest.mark.parametrize("stream", [True, False])
    def test_what_a_worker_did_before_anything_was_told_of_it_is_not_called_prefill(self, stream: bool) -> None:
        stage = Stage()
        stage.start("a")
        handle, _ = stage.submit("r", stream=stream)
        stage.now += 1.0
        handle.cancel("client_left")
        assert [(s.name, s.start_s, s.duration_s) for s in ended(stage)["r"].stages][2:] == [("at_worker", 0.0, 1.0)]

    def test_a_plain_call_takes_its_first_token_time_from_the_worker(self) -> None:
        stage = Stage()
        stage.start("a")
        stage.submit("r", stream=False)
        stage.now += 5.0
        stage.link("a").finish("r", 3, Stages(queued_s=0.5, prefill_s=0.5, decode_s=4.0))
        account = stage.ledger.take(stage.now)
        assert account.ended[0].ttft_s == pytest.approx(1.0)
        assert account.ended[0].itl_p50_s == 0.0
        assert sum(account.meters["a"].ttft.values()) == 1
        assert account.meters["a"].itl == {}

    def test_choices_are_timed_apart(self) -> None:
        stage = Stage()
        stage.start("a")
        stage.submit("r", n=2)
        link = stage.link("a")
        for _ in range(3):
            stage.now += 0.1
            link.token("r", choice=0)
            link.token("r", choice=1)
        account = stage.ledger.take(stage.now)
        assert sum(account.meters["a"].itl.values()) == 4
        assert account.active[0].itl_p50_s == pytest.approx(0.1, rel=0.03)
        assert account.active[0].output_tokens == 6

    def test_phases_on_the_way(self) -> None:
        stage = Stage()
        stage.start("a", phase=WorkerPhase.STARTING)
        stage.submit("r")
        seen = [stage.ledger.take(stage.now).active[0].phase]
        stage.start("a")
        seen.append(stage.ledger.take(stage.now).active[0].phase)
        stage.link("a").token("r")
        seen.append(stage.ledger.take(stage.now).active[0].phase)
        assert seen == [RequestPhase.QUEUED, RequestPhase.DISPATCHED, RequestPhase.DECODING]

    def test_a_request_that_ended_is_reported_once_and_nudges_once(self) -> None:
        stage = Stage()
        stage.start("a")
        stage.submit("r")
        stage.link("a").finish("r")
        assert stage.ended == 1
        assert list(ended(stage)) == ["r"]
        assert ended(stage) == {}
