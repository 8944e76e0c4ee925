"""A call that another router had before: it goes on, and what it cost there counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from control_plane.contracts.errors import InvalidRequest, WorkerLost
from control_plane.contracts.fleet import RequestPhase
from control_plane.router.migration import continued, obstacle
from tests.unit.router.stage import RecordingSink, Stage


def resumed(
    stage: Stage, said: int = 2, attempts: int = 1, ttft_s: float = 0.5, **more: int
) -> tuple[object, RecordingSink]:
    """Submitted with so many tokens of its answer behind it."""
    stage.now += 5.0
    call = continued(stage.call("r", **more), [7] * said)
    call = replace(call, attempts=attempts, ttft_s=ttft_s, arrival_mono=stage.now - 5.0, gateway_id="g4")
    sink = RecordingSink()
    return stage.dispatcher.submit(call, sink), sink


def test_it_is_told_as_one_call_with_one_time_to_first_token() -> None:
    stage = Stage()
    stage.start("a")
    _, sink = resumed(stage)
    (view,) = stage.ledger.take(stage.now).active
    assert (view.prompt_tokens, view.output_tokens, view.retries, view.ttft_s) == (3, 2, 1, 0.5)
    assert (view.gateway_id, view.router_id, view.phase) == ("g4", "g1", RequestPhase.DISPATCHED)
    stage.link("a").token("r")
    (view,) = stage.ledger.take(stage.now).active
    assert (view.output_tokens, view.phase) == (3, RequestPhase.DECODING)
    stage.link("a").finish("r", output_tokens=4)
    account = stage.ledger.take(stage.now)
    assert [(ended.prompt_tokens, ended.output_tokens, ended.ttft_s) for ended in account.ended] == [(3, 4, 0.5)]
    assert not account.meters.get("a") or not account.meters["a"].ttft
    assert sink.done


def test_when_its_worker_is_lost_as_well_it_goes_on_from_all_it_has_said() -> None:
    stage = Stage()
    stage.start("a", "b")
    resumed(stage)
    first = stage.where("r")
    stage.link(first).token("r")
    stage.link(first).down()
    (call,) = stage.link(stage.where("r")).running.values()
    assert call.resumed == 3
    assert list(call.prompt_token_ids) == [1, 1, 1, 7, 7, 7]


def test_losses_elsewhere_count() -> None:
    stage = Stage(retries=2)
    stage.start("a", "b")
    _, sink = resumed(stage, attempts=2)
    stage.link(stage.where("r")).down()
    assert isinstance(sink.error, WorkerLost)
    stage.check()


def test_losses_elsewhere_count_before_the_first_token_as_well() -> None:
    stage = Stage(retries=2)
    stage.start("a", "b")
    sink = RecordingSink()
    stage.dispatcher.submit(replace(stage.call("r"), attempts=2), sink)
    stage.link(stage.where("r")).down()
    assert isinstance(sink.error, WorkerLost)
    assert sink.error.retry is False


def test_what_it_has_said_is_not_counted_twice_against_the_context() -> None:
    stage = Stage(max_context=11)
    stage.start("a")
    resumed(stage, said=6)
    assert stage.where("r") == "a"
    with pytest.raises(InvalidRequest):
        stage.submit(prompt=4)


def test_the_end_of_the_answer_is_where_it_was() -> None:
    stage = Stage()
    call = continued(stage.call(max_tokens=4), [7, 7])
    assert obstacle(call, 1) == ""
    assert obstacle(call, 2) == "only the end of the answer was still to come"


def test_one_that_is_taken_up_again_proves_its_worker() -> None:
    """A trial after failures ends with the first token of a call that goes on, not with the whole call."""
    stage = Stage()
    stage.start("a", "b")
    stage.submit("r")
    first = stage.where("r")
    (second,) = {"a", "b"} - {first}
    stage.link(first).token("r")
    stage.link(second).target.refused(stage.now)
    stage.advance(1.0)
    stage.link(first).down()
    assert stage.where("r") == second
    assert stage.link(second).target.candidate.refusing_until == float("inf")
    stage.link(second).token("r")
    assert stage.link(second).target.candidate.refusing_until == 0.0
    (view,) = stage.ledger.take(stage.now).active
    assert view.phase is RequestPhase.DECODING


def test_a_long_prefill_is_nobodys_fault() -> None:
    """H01: nothing is retried, refused or held against the worker, however long the first token takes."""
    stage = Stage(queue_timeout_s=5.0)
    stage.start("a")
    _, sink = stage.submit("slow")
    for _ in range(60):
        stage.publish()
        stage.advance(1.0)
    assert stage.link("a").sent == ["slow"]
    _, other = stage.submit("other")
    assert stage.where("other") == "a"
    stage.link("a").finish("slow")
    stage.link("a").finish("other")
    assert sink.done
    assert other.done
