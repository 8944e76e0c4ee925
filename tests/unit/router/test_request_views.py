"""Requests as operators see them."""

from __future__ import annotations

import pytest

from control_plane.contracts.fleet import RequestPhase, WorkerPhase
from control_plane.contracts.worker import Stages
from tests.unit.router.stage import ended, staged


class TestViews:
    def test_stages_follow_each_other_and_ttft_is_from_arrival(self) -> None:
        stage = staged("a", phase=WorkerPhase.STARTING)
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
        stage = staged("a")
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
        stage = staged("a")
        handle, _ = stage.submit("r", stream=stream)
        stage.now += 1.0
        handle.cancel("client_left")
        assert [(s.name, s.start_s, s.duration_s) for s in ended(stage)["r"].stages][2:] == [("at_worker", 0.0, 1.0)]

    def test_a_plain_call_takes_its_first_token_time_from_the_worker(self) -> None:
        stage = staged("a")
        stage.submit("r", stream=False)
        stage.now += 5.0
        stage.link("a").finish("r", 3, Stages(queued_s=0.5, prefill_s=0.5, decode_s=4.0))
        account = stage.ledger.take(stage.now)
        assert account.ended[0].ttft_s == pytest.approx(1.0)
        assert account.ended[0].itl_p50_s == 0.0
        assert sum(account.meters["a"].ttft.values()) == 1
        assert account.meters["a"].itl == {}

    def test_choices_are_timed_apart(self) -> None:
        stage = staged("a")
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
        stage = staged("a", phase=WorkerPhase.STARTING)
        stage.submit("r")
        seen = [stage.ledger.take(stage.now).active[0].phase]
        stage.start("a")
        seen.append(stage.ledger.take(stage.now).active[0].phase)
        stage.link("a").token("r")
        seen.append(stage.ledger.take(stage.now).active[0].phase)
        assert seen == [RequestPhase.QUEUED, RequestPhase.DISPATCHED, RequestPhase.DECODING]

    def test_a_request_that_ended_is_reported_once_and_nudges_once(self) -> None:
        stage = staged("a")
        stage.submit("r")
        stage.link("a").finish("r")
        assert stage.ended == 1
        assert list(ended(stage)) == ["r"]
        assert ended(stage) == {}
