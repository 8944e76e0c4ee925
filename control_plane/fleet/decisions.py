"""Why requests went where they went, asked of the routers that decided it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from control_plane.contracts.decision import (
    DECISIONS_KEPT,
    DecisionList,
    DecisionQuestion,
    DecisionReplay,
    DecisionView,
    Explanation,
)
from control_plane.contracts.errors import NotFound, RequestTimeout, Unavailable
from control_plane.contracts.fleet import RequestView
from control_plane.contracts.routing import RoutingProfile
from control_plane.fleet.questions import Answers
from control_plane.fleet.requests import Requests
from control_plane.fleet.routers import Routers, Session

LISTED: Final = 100
LISTED_CANDIDATES: Final = 8
"""Of each decision in a list; one by one they are told whole."""


class Decisions:
    def __init__(self, requests: Requests, routers: Routers) -> None:
        self._requests = requests
        self._routers = routers

    async def explain(self, request_id: str) -> Explanation:
        """Every decision about a request, and when it was kept waiting. Raises NotFound where it is unknown, or its
        decisions are not kept any more; Unavailable where the gateway that has them is away, RequestTimeout where it
        does not answer."""
        answers = await self._ask(DecisionQuestion(0, request_id))
        found = _in_order(answer.decisions for answer in answers.said.values())
        view = self._requests.find(request_id)
        # One that has only waited so far is explained by that.
        only_waited = view is not None and bool(view.holds) and not view.worker_id
        if not found and not only_waited:
            self._complain(request_id, view, answers)
        return Explanation(request_id, found, answers.silent, view.holds if view is not None else ())

    async def newest(self, last: int, after: Mapping[str, int]) -> DecisionList:
        """The last ones of every router, those that were told before left out."""
        last = min(last or LISTED, DECISIONS_KEPT)

        async def ask(session: Session) -> Answers:
            question = DecisionQuestion(0, "", last, after.get(session.identity.id, 0), LISTED_CANDIDATES)
            return await self._routers.questions.ask([session], question)

        every = await asyncio.gather(*map(ask, self._joined()))
        told = (answer.decisions for answers in every for answer in answers.said.values())
        silent = tuple(name for answers in every for name in answers.silent)
        return DecisionList(_in_order(told), silent, time.time())

    async def again(self, name: str, by: RoutingProfile, last: int) -> DecisionReplay:
        """What the last ones of every router would have been under this profile."""
        answers = await self._ask(DecisionQuestion(0, "", last, 0, 0, by))
        views = [answer.rescored for _, answer in sorted(answers.said.items()) if answer.rescored is not None]
        errors = {router: answer.error for router, answer in answers.said.items() if answer.error}
        return DecisionReplay(name, by, tuple(views), answers.silent, errors)

    async def _ask(self, question: DecisionQuestion) -> Answers:
        return await self._routers.questions.ask(self._joined(), question)

    def _joined(self) -> Sequence[Session]:
        return [session for session in self._routers.all() if session.joined and session.decides]

    def _complain(self, request_id: str, view: RequestView | None, answers: Answers) -> None:
        noun, holder = "gateway", view.gateway_id if view is not None else ""
        if view is not None and view.router_id:
            noun, holder = "router", view.router_id
        if (session := self._routers.get(holder)) is not None and not session.joined:
            raise Unavailable(
                f"{noun}/{holder} knows why request/{request_id} went where it went, and is away",
                hint=f"inferdeck get {noun}s",
            )
        if answers.silent:
            raise RequestTimeout(
                f"no answer about request/{request_id} in time from {', '.join(answers.silent)}",
                hint="inferdeck get gateways",
            )
        if view is None:
            raise NotFound(f"no request named {request_id}", param="request_id", hint="inferdeck get requests --all")
        raise NotFound(
            f"the decisions about request/{request_id} are not kept any more: a router keeps its last "
            f"{DECISIONS_KEPT}, as long as it lives",
            param="request_id",
        )


def _in_order(parts: Iterable[tuple[DecisionView, ...]]) -> tuple[DecisionView, ...]:
    every = [decision for part in parts for decision in part]
    return tuple(sorted(every, key=lambda each: (each.at_unix, each.router_id, each.number)))
