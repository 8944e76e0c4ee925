"""The stream to the control plane: joined, lost, refused, joined again somewhere else."""

from __future__ import annotations

import pytest

from control_plane.contracts.decision import DecisionAnswer, DecisionQuestion
from control_plane.contracts.errors import SettingsError, Unavailable
from control_plane.contracts.fleet import GatewayIdentity, GatewayStats, RequestPhase
from control_plane.contracts.routing import Routing, RoutingProfile
from control_plane.router.embedded import EmbeddedRouter
from control_plane.settings.model import RouterSettings
from tests.integration.router.rig import MODEL, rig, until
from tests.scripted_worker import scripted_server


async def test_with_the_control_plane_gone_everything_is_served_on_and_told_later() -> None:
    async with scripted_server(delay_s=0.01) as worker, rig([worker]) as made:
        _, running = made.submit({"tokens": 60}, request_id="running")
        await running.begun()
        await made.fleet.stop()
        _, during = made.submit({"tokens": 3}, request_id="during")
        await during.end()
        await running.end()
        assert during.error is None
        assert running.error is None
        assert made.router.ready()
        assert MODEL in {view.name for view in made.router.models()}
        await made.fleet.start()
        await until(lambda: {"running", "during"} <= set(made.fleet.ended), "the reports of what ended meanwhile")
        assert made.fleet.ended["running"].phase is RequestPhase.FINISHED
        itl = sum(sum(h.buckets.values()) for r in made.fleet.reports for h in r.itl.values())
        assert itl == len(running.deltas) - 1 + len(during.deltas) - 1


async def test_a_new_control_plane_that_knows_nobody_yet_cuts_no_stream() -> None:
    async with scripted_server(delay_s=0.01) as worker, rig([worker]) as made:
        _, running = made.submit({"tokens": 100})
        await running.begun()
        known = dict(made.fleet.workers)
        await made.fleet.stop()
        made.fleet.workers = {}
        await made.fleet.start()
        await until(lambda: not made.router.ready(), "the empty set")
        _, waiting = made.submit({"tokens": 2})
        assert made.router.dispatcher.queued == 1
        made.fleet.workers = known
        made.fleet.publish()
        await waiting.end()
        await running.end()
        assert waiting.error is None
        assert running.error is None
        assert running.tokens == 100


async def test_a_router_starts_before_its_control_plane() -> None:
    async with scripted_server() as worker, rig() as made:
        await made.fleet.add(worker)
        await made.ready()
        _, sink = made.submit({"tokens": 1})
        await sink.end()
        assert sink.error is None


async def test_without_the_right_key_nothing_is_known() -> None:
    async with scripted_server() as worker, rig(key="wrong") as made:
        await made.fleet.add(worker)
        with pytest.raises(Unavailable):
            made.submit({"tokens": 1})
        assert not made.router.ready()
        assert made.fleet.reports == []


async def test_closing_tells_the_fleet_and_every_caller() -> None:
    async with scripted_server(delay_s=0.01) as worker, rig([worker]) as made:
        _, sink = made.submit({"tokens": 500}, request_id="cut")
        await sink.begun()
        await made.router.close()
        assert isinstance(sink.error, Unavailable)
        await until(lambda: "cut" in made.fleet.ended)
        assert made.fleet.last.active == ()
        await made.router.close()
        await until(lambda: worker.engine.load().running == 0)


def test_a_profile_that_does_not_exist_is_a_wrong_setting() -> None:
    with pytest.raises(SettingsError) as caught:
        EmbeddedRouter(
            router_id="g1",
            identity=lambda: GatewayIdentity("g1", 1, "", 0.0),
            fleet_address=lambda: None,
            operator_key=lambda: "",
            stats=GatewayStats,
            settings=RouterSettings(profile="fastest"),
        )
    assert caught.value.param == "router.profile"
    assert "least_load" in caught.value.message


async def test_the_profile_is_the_policys_as_soon_as_it_is_told_and_the_settings_where_it_says_none() -> None:
    async with scripted_server() as worker, rig([worker]) as made:
        placement = made.router.dispatcher.placement
        for told, used in (("round_robin", "round_robin"), ("of a later version", "round_robin"), ("", "least_load")):
            made.fleet.route(Routing(told))
            await until(lambda used=used: placement.profile.name == used, f"the profile {used}")
            _, sink = made.submit({"tokens": 1})
            await sink.end()
            assert placement.decisions.last.profile.name == used


async def test_an_operators_own_profile_is_followed_and_changes_with_the_policy() -> None:
    async with scripted_server() as worker, rig([worker]) as made:
        placement = made.router.dispatcher.placement
        mine = RoutingProfile({"queue_depth": 2.0, "inflight_tokens": 1.0}, "softmax", 0.2)
        made.fleet.route(Routing("mine", {"mine": mine}))
        await until(lambda: placement.profile.name == "mine", "the profile mine")
        assert [(scorer.name, weight) for scorer, weight in placement.profile.scorers] == [
            ("inflight_tokens", 1.0),
            ("queue_depth", 2.0),
        ]
        assert placement.profile.temperature == 0.2
        before = placement.profile
        made.fleet.route(Routing("mine", {"mine": mine, "other": RoutingProfile({"kv_headroom": 1.0})}))
        made.fleet.route(Routing("mine", {"mine": RoutingProfile({"of a later version": 1.0})}))
        made.fleet.route(Routing("mine", {"mine": RoutingProfile({"kv_headroom": 1.0})}))
        await until(lambda: placement.profile is not before, "other weights")
        assert [scorer.name for scorer, _ in placement.profile.scorers] == ["kv_headroom"]
        _, sink = made.submit({"tokens": 1})
        await sink.end()
        assert sink.error is None


async def test_questions_about_decisions_are_answered_with_a_report() -> None:
    async with scripted_server() as worker, rig([worker]) as made:
        _, sink = made.submit({"tokens": 1}, request_id="asked")
        await sink.end()
        made.fleet.ask(DecisionQuestion(7, "asked"))
        made.fleet.ask(DecisionQuestion(8, again=RoutingProfile({"kv_headroom": 1.0})))
        made.fleet.ask(DecisionQuestion(9, again=RoutingProfile({"of a later version": 1.0})))

        def answers() -> dict[int, DecisionAnswer]:
            return {answer.number: answer for report in made.fleet.reports for answer in report.answers}

        await until(lambda: set(answers()) == {7, 8, 9}, "three answers")
        (decision,) = answers()[7].decisions
        assert (decision.request_id, decision.chosen, decision.router_id) == ("asked", *made.fleet.workers, "g1")
        assert decision.picked is not None
        assert decision.picked.inputs["requests"] == 0
        rescored = answers()[8].rescored
        assert rescored is not None
        assert (rescored.decisions, rescored.elsewhere) == (1, 0)
        assert "of a later version" in answers()[9].error
