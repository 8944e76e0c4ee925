"""Calls that are ended from outside, and calls that end for everyone."""

from __future__ import annotations

import pytest

from control_plane.contracts.errors import DropReason, RequestCancelled, Unavailable
from control_plane.contracts.fleet import CancelOutcome, RequestPhase, WorkerPhase
from tests.unit.router.stage import Stage, ended, staged


class TestCancel:
    def test_a_client_that_left_frees_the_worker_and_hears_nothing(self) -> None:
        stage = staged("a")
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
        stage = staged("a")
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
        stage = staged("a")
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
        stage = staged("a", "b")
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
        stage = staged("a")
        handle, _ = stage.submit("r")
        told: list[int] = []
        handle.cancel("client_left", told.append)
        stage.start("a", phase=WorkerPhase.FAILED)
        stage.start("b")
        assert [target.worker_id for target in stage.dispatcher.targets.all()] == ["b"]
        assert told == []

    @pytest.mark.parametrize("tokens", [0, 3])
    def test_an_operator_ends_a_running_request(self, tokens: int) -> None:
        stage = staged("a")
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
        stage = staged("a", phase=WorkerPhase.STARTING)
        _, sink = stage.submit("r")
        stage.dispatcher.cancel("r")
        assert isinstance(sink.error, RequestCancelled)
        stage.start("a")
        assert stage.link("a").sent == []

    def test_finished_is_known_and_unknown_is_not(self) -> None:
        stage = staged("a")
        stage.submit("r")
        stage.link("a").finish("r")
        assert stage.dispatcher.cancel("r") == CancelOutcome("r", found=True, already_ended=True)
        assert stage.dispatcher.cancel("nobody") == CancelOutcome("nobody", found=False)

    def test_aborted_at_the_worker_by_somebody_else_is_a_cancel(self) -> None:
        stage = staged("a", "b")
        _, sink = stage.submit("r")
        here = stage.where("r")
        stage.link(here).token("r")
        stage.link(here).aborted_outside("r")
        assert isinstance(sink.error, RequestCancelled)
        assert ended(stage)["r"].phase is RequestPhase.CANCELLED

    def test_a_place_that_a_cancel_frees_goes_to_the_next(self) -> None:
        stage = staged("a", max_num_seqs=1)
        handle, _ = stage.submit("r1")
        stage.submit("r2")
        stage.submit("r3")
        handle.cancel("client_left")
        assert stage.link("a").sent == ["r1", "r2", "r3"]

    def test_a_place_that_an_abort_at_the_worker_frees_goes_to_the_next(self) -> None:
        stage = staged("a", max_num_seqs=1)
        for name in ("r1", "r2", "r3"):
            stage.submit(name)
        stage.link("a").aborted_outside("r1")
        assert stage.link("a").sent == ["r1", "r2", "r3"]

    def test_a_place_goes_to_the_next_even_if_the_last_delta_breaks_its_sink(self) -> None:
        stage = staged("a", max_num_seqs=1)
        _, sink = stage.submit("r1")
        stage.submit("r2")
        stage.submit("r3")
        sink.error = RequestCancelled("it refuses what comes now")
        with pytest.raises(AssertionError):
            stage.link("a").finish("r1")
        assert stage.link("a").sent == ["r1", "r2", "r3"]
        stage.check()

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
        stage = staged("a")
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
