"""Questions to routers: who is asked, who answers, and what is said where nobody can."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from control_plane.contracts.decision import DecisionAnswer, DecisionQuestion, RescoredView
from control_plane.contracts.errors import NotFound, RequestTimeout, Unavailable
from control_plane.contracts.fleet import GatewayIdentity, RequestPhase, RequestView, RouterReport
from control_plane.contracts.hold import Hold
from control_plane.contracts.routing import RoutingProfile
from control_plane.fleet.changes import Changes
from control_plane.fleet.decisions import Decisions
from control_plane.fleet.questions import Questions
from control_plane.fleet.requests import Requests
from control_plane.fleet.routers import Routers, Session
from tests.decisions import decision

MINE = RoutingProfile({"queue_depth": 1.0})


class Fleet:
    def __init__(self, timeout_s: float = 20.0) -> None:
        self.requests = Requests()
        self.routers = Routers(self.requests, Changes(), lambda worker_id: None)
        self.routers.questions = Questions(timeout_s)
        self.decisions = Decisions(self.requests, self.routers)

    def join(self, name: str) -> Session:
        return self.routers.join(GatewayIdentity(name, 7, "http://127.0.0.1:1", 0.0))

    def report(self, session: Session, *requests: RequestView, answers: tuple[DecisionAnswer, ...] = ()) -> None:
        self.routers.report(session, RouterReport(ended=requests, answers=answers))

    async def asked(self, session: Session) -> DecisionQuestion:
        return await asyncio.wait_for(session.questions.get(), 20)


def ended(request_id: str, gateway: str) -> RequestView:
    return RequestView(request_id, gateway, "m", RequestPhase.FINISHED)


async def test_every_router_is_asked_and_the_one_that_knows_answers() -> None:
    fleet = Fleet()
    first, second = fleet.join("g1"), fleet.join("g2")
    asking = asyncio.create_task(fleet.decisions.explain("req-1"))
    one, two = await fleet.asked(first), await fleet.asked(second)
    assert one == two == DecisionQuestion(one.number, "req-1")
    late, early = decision(9), replace(decision(4), at_unix=5.0)
    fleet.report(first, answers=(DecisionAnswer(one.number),))
    fleet.report(second, answers=(DecisionAnswer(999), DecisionAnswer(two.number, (late, early))))
    told = await asking
    assert told.decisions == (early, late)
    assert told.silent == ()


async def test_an_answer_is_to_its_own_question() -> None:
    fleet = Fleet()
    router = fleet.join("g1")
    one = asyncio.create_task(fleet.decisions.explain("one"))
    two = asyncio.create_task(fleet.decisions.explain("two"))
    questions = {question.request_id: question for question in (await fleet.asked(router), await fleet.asked(router))}
    for name in ("two", "one"):
        answer = DecisionAnswer(questions[name].number, (decision(request_id=name),))
        fleet.report(router, answers=(answer,))
    assert (await one).decisions[0].request_id == "one"
    assert (await two).decisions[0].request_id == "two"


async def test_a_request_that_nobody_knows_is_not_found() -> None:
    fleet = Fleet()
    with pytest.raises(NotFound, match="no request named req-1"):
        await fleet.decisions.explain("req-1")


async def test_one_that_only_waits_is_explained_by_that() -> None:
    fleet = Fleet()
    router = fleet.join("g1")
    hold = Hold("busy", 0.01, 2.0, tier="paid", band="busy", saturation=0.83, position=3, queued=12)
    waiting = replace(ended("req-1", "g1"), phase=RequestPhase.QUEUED, holds=(hold,))
    fleet.routers.report(router, RouterReport(active=(waiting,)))
    asking = asyncio.create_task(fleet.decisions.explain("req-1"))
    question = await fleet.asked(router)
    fleet.routers.report(router, RouterReport(active=(waiting,), answers=(DecisionAnswer(question.number),)))
    told = await asking
    assert told.holds == (hold,)
    assert told.decisions == ()


async def test_what_it_waited_is_told_with_its_decisions() -> None:
    fleet = Fleet()
    router = fleet.join("g1")
    hold = Hold("full", 0.01, 2.0, over=True, position=1, queued=1)
    fleet.report(router, replace(ended("req-1", "g1"), worker_id="w", holds=(hold,)))
    asking = asyncio.create_task(fleet.decisions.explain("req-1"))
    question = await fleet.asked(router)
    fleet.report(router, answers=(DecisionAnswer(question.number, (decision(4),)),))
    told = await asking
    assert (told.holds, len(told.decisions)) == ((hold,), 1)


async def test_decisions_that_are_not_kept_any_more_are_not_found_and_that_is_said() -> None:
    fleet = Fleet()
    router = fleet.join("g1")
    fleet.report(router, ended("req-1", "g1"))
    asking = asyncio.create_task(fleet.decisions.explain("req-1"))
    question = await fleet.asked(router)
    fleet.report(router, answers=(DecisionAnswer(question.number),))
    with pytest.raises(NotFound, match="not kept any more: a router keeps its last 512"):
        await asking


async def test_a_router_that_is_away_is_named() -> None:
    fleet = Fleet()
    router = fleet.join("g1")
    fleet.report(router, ended("req-1", "g1"))
    fleet.routers.leave(router)
    with pytest.raises(Unavailable, match="gateway/g1 knows why") as caught:
        await fleet.decisions.explain("req-1")
    assert caught.value.hint == "inferdeck get gateways"


async def test_one_that_leaves_while_it_is_asked_keeps_nobody_waiting() -> None:
    fleet = Fleet()
    router = fleet.join("g1")
    asking = asyncio.create_task(fleet.decisions.explain("req-1"))
    await fleet.asked(router)
    fleet.routers.leave(router)
    with pytest.raises(RequestTimeout, match="from g1"):
        await asking


async def test_one_that_does_not_answer_is_given_up_on_and_what_others_say_is_told() -> None:
    fleet = Fleet(timeout_s=0.05)
    router, _silent = fleet.join("g1"), fleet.join("g2")
    asking = asyncio.create_task(fleet.decisions.explain("req-1"))
    question = await fleet.asked(router)
    fleet.report(router, answers=(DecisionAnswer(question.number, (decision(),)),))
    told = await asking
    assert (told.decisions, told.silent) == ((decision(),), ("g2",))
    fleet.report(router, answers=(DecisionAnswer(question.number, (decision(),)),))


async def test_each_router_is_asked_only_for_what_is_new_of_it() -> None:
    fleet = Fleet()
    first, second = fleet.join("g1"), fleet.join("g2")
    asking = asyncio.create_task(fleet.decisions.newest(0, {"g2": 40}))
    one, two = await fleet.asked(first), await fleet.asked(second)
    assert (one.after, two.after, one.last, one.candidates) == (0, 40, 100, 8)
    fleet.report(first, answers=(DecisionAnswer(one.number, (decision(3),)),))
    fleet.report(second, answers=(DecisionAnswer(two.number, (replace(decision(41), router_id="g2"),)),))
    assert [each.number for each in (await asking).decisions] == [3, 41]


async def test_decisions_under_other_weights_are_every_routers_own_work() -> None:
    fleet = Fleet()
    first, second = fleet.join("g1"), fleet.join("g2")
    asking = asyncio.create_task(fleet.decisions.again("mine", MINE, 50))
    one, two = await fleet.asked(first), await fleet.asked(second)
    assert (one.again, one.last) == (MINE, 50)
    fleet.report(first, answers=(DecisionAnswer(one.number, rescored=RescoredView("g1", 12)),))
    fleet.report(second, answers=(DecisionAnswer(two.number, error="too old"),))
    told = await asking
    assert (told.profile, told.by) == ("mine", MINE)
    assert told.routers == (RescoredView("g1", 12),)
    assert told.errors == {"g2": "too old"}
