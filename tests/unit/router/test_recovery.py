"""Calls whose worker refused them, failed or was lost: elsewhere, or an error."""

from __future__ import annotations

import pytest

from control_plane.contracts.errors import DropReason, InternalError, WorkerLost
from control_plane.contracts.fleet import RequestPhase, WorkerPhase
from tests.unit.router.stage import Stage, StageWorker, ended, staged


class TestRefusedByTheWorker:
    @pytest.mark.parametrize("code", ["draining", "overloaded", "no_capacity", "model_loading"])
    def test_it_goes_elsewhere(self, code: str) -> None:
        stage = staged("a", "b")
        _, sink = stage.submit("r")
        first = stage.where("r")
        stage.link(first).fail("r", code)
        assert stage.where("r") == ({"a", "b"} - {first}).pop()
        assert not sink.over
        stage.check()

    def test_it_waits_where_there_is_no_other_and_is_tried_again(self) -> None:
        stage = staged("a")
        _, sink = stage.submit("r")
        stage.link("a").fail("r", "overloaded")
        assert stage.dispatcher.queued == 1
        stage.advance(0.3)
        assert stage.link("a").sent == ["r", "r"]
        stage.link("a").finish("r")
        assert sink.done

    def test_one_at_a_time_after_a_refusal_and_all_once_it_went_well(self) -> None:
        stage = staged("a")
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
        stage = staged("a")
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
        stage = staged("a", "b")
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
        stage = staged("a", "b")
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
        stage = staged("a", "b")
        _, sink = stage.submit("r", **sampling)
        first = stage.link(stage.where("r"))
        first.token("r")
        first.down()
        assert isinstance(sink.error, WorkerLost)
        assert words in sink.error.message
        stage.check()

    def test_a_busy_worker_makes_it_wait_not_fail(self) -> None:
        stage = staged("a", "b")
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
        stage = staged("a", "b")
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
        stage = staged("a")
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
        stage = staged("a", "b")
        _, sink = stage.submit("r")
        first = stage.where("r")
        stage.workers[first].phase = WorkerPhase.FAILED
        stage.publish()
        assert stage.where("r") not in ("", first)
        assert not sink.over

    def test_missed_heartbeats_do_not_end_a_stream(self) -> None:
        stage = staged("a", "b")
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
        stage = staged("a", "b")
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
        stage = staged("a")
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
        stage = staged("a", "b")
        _, sink = stage.submit("r", n=2, stream=False)
        link = stage.link(stage.where("r"))
        link.token("r", "whole choice", choice=1, tokens=5)
        link.down()
        assert isinstance(sink.error, WorkerLost)
