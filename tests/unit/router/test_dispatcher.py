"""Where calls go, what is refused at once, and what becomes of them when the fleet changes."""

from __future__ import annotations

import pytest

from control_plane.contracts.admission import AdmissionRules
from control_plane.contracts.errors import Conflict, InvalidRequest, NotFound, Unavailable
from control_plane.contracts.fleet import RequestPhase, WorkerPhase
from control_plane.contracts.worker import Load, WorkerState
from control_plane.router.decisions import decision_view
from tests.unit.router.stage import Stage, StageWorker, ended, staged


class TestPlacing:
    def test_a_call_goes_to_the_worker_and_its_answer_comes_back(self) -> None:
        stage = staged("a")
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
        stage = staged("a", "b", "c")
        for index in range(30):
            stage.submit(f"r{index}")
        assert [len(stage.link(name).running) for name in "abc"] == [10, 10, 10]
        stage.check()

    def test_a_long_prompt_counts_for_more_than_a_short_one(self) -> None:
        stage = staged("a", "b")
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
        stage = staged("a", "b")
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
        stage = staged("a", "b")
        stage.workers["a"].load = Load("a-i1", stage.now, state)
        stage.publish()
        for index in range(4):
            stage.submit(f"r{index}")
            assert stage.where(f"r{index}") == "b"

    def test_every_score_is_kept(self) -> None:
        stage = staged("a", "b")
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
        stage = staged("a")
        stage.submit("r")
        with pytest.raises(Conflict):
            stage.submit("r")
        stage.check()


class TestRefusals:
    def test_an_unknown_model_is_404_and_no_worker_hears_of_it(self) -> None:
        stage = staged("a")
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
        stage = staged("a", max_context=50)
        with pytest.raises(InvalidRequest):
            stage.submit(prompt=50, max_tokens=1)

    def test_what_the_worker_holds_against_the_call_is_the_callers_fault_and_not_retried(self) -> None:
        stage = staged("a", "b")
        _, sink = stage.submit("r")
        here = stage.where("r")
        stage.link(here).fail("r", "invalid_request", "no such token", "logit_bias")
        assert isinstance(sink.error, InvalidRequest)
        assert sink.error.param == "logit_bias"
        assert sum(len(link.sent) for link in stage.links) == 1
        for index in range(20):
            stage.submit(f"s{index}")
        assert len(stage.link(here).running) == 10, "a caller's mistakes do not trip the circuit"


class TestFleetSets:
    def test_a_set_that_leaves_a_worker_out_does_not_cut_its_streams(self) -> None:
        stage = staged("a", "b")
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
        stage = staged("a")
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
        stage = staged("a")
        _, sink = stage.submit("r")
        stage.publish(StageWorker("a", "", phase=WorkerPhase.STARTING))
        stage.link("a").token("r")
        stage.start("a")
        stage.link("a").finish("r")
        assert sink.done
        assert len(stage.links) == 1

    def test_an_idle_worker_that_left_is_let_go(self) -> None:
        stage = staged("a", "b")
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
