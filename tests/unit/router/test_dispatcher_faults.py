"""What fails in the router itself: one call's failure, and no other's."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from control_plane.contracts.errors import InternalError
from control_plane.contracts.fleet import RequestPhase
from control_plane.router.requests import Request
from control_plane.router.scheduling.candidate import Ask, Candidate
from control_plane.router.scheduling.pickers import MaxRandomTies
from control_plane.router.scheduling.profile import Decision, Profile
from tests.unit.router.stage import Stage, ended, staged


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
        stage = staged("a", max_num_seqs=1)
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

    def test_a_call_that_cannot_be_sent_is_refused_and_nobody_holds_it(self) -> None:
        stage = staged("a")
        stage.link("a").unsendable.add("bad")
        with pytest.raises(InternalError):
            stage.submit("bad")
        stage.check()
        assert stage.ledger.find("bad") is None
        assert ended(stage)["bad"].phase is RequestPhase.FAILED
        assert stage.dispatcher.placement.decisions.last.chosen == "a"

    def test_a_waiting_call_that_cannot_be_sent_fails_and_does_not_hold_up_the_others(self) -> None:
        stage = staged("a", max_num_seqs=1)
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
        stage = staged("a", "b")
        _, sink = stage.submit("r")
        here = stage.where("r")
        stage.link("b" if here == "a" else "a").unsendable.add("r")
        stage.link(here).down()
        assert isinstance(sink.error, InternalError)
        stage.check()

    def test_a_sink_that_breaks_ends_its_call_only(self) -> None:
        stage = staged("a")
        stage.submit("bad")
        _, good = stage.submit("good")
        request = stage.ledger.find("bad")
        assert request is not None
        stage.dispatcher.sink_broke(request)
        assert stage.link("a").aborted == ["bad"]
        stage.link("a").finish("good")
        assert good.done
