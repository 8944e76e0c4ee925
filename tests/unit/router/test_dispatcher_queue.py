"""Calls that wait for an endpoint, through the dispatcher."""

from __future__ import annotations

from dataclasses import replace

import pytest

from control_plane.contracts.errors import DropReason, Unavailable
from control_plane.contracts.fleet import RequestPhase, WorkerPhase
from control_plane.contracts.worker import Load, WorkerState
from tests.unit.router.stage import RecordingSink, Stage, ended, staged


class TestWaiting:
    def test_a_call_waits_until_a_worker_is_ready(self) -> None:
        stage = staged("a", phase=WorkerPhase.STARTING)
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
        stage = staged("a", phase=WorkerPhase.STARTING)
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
        stage = staged("a", phase=WorkerPhase.STARTING)
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
        stage = staged("a", max_num_seqs=1)
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
        stage = staged("a", max_num_seqs=2)
        stage.workers["a"].load = Load("a-i1", stage.now, WorkerState.READY, running=2, waiting=2)
        stage.publish()
        stage.submit("r")
        assert stage.dispatcher.queued == 1
        stage.advance(5)
        assert stage.link("a").sent == ["r"], "a stale sample does not keep calls waiting for ever"
