"""What operators ask of the routers that have joined: a question goes down to each, its answer comes with a report."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final, Protocol

from control_plane.contracts.decision import DecisionAnswer, DecisionQuestion
from control_plane.contracts.fleet import GatewayIdentity

ANSWER_TIMEOUT_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Answers:
    """``said`` by router id; ``silent`` are those that did not answer in time, or left."""

    said: dict[str, DecisionAnswer] = field(default_factory=dict)
    silent: tuple[str, ...] = ()


class Asked(Protocol):
    """A router that has joined; what is put into ``questions`` goes down to it."""

    @property
    def identity(self) -> GatewayIdentity: ...

    @property
    def questions(self) -> asyncio.Queue[DecisionQuestion]: ...


class Questions:
    def __init__(self, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._numbers = count(1)
        self._asked: dict[int, dict[str, asyncio.Future[DecisionAnswer]]] = {}

    async def ask(self, routers: Iterable[Asked], question: DecisionQuestion) -> Answers:
        """Each of the routers; returns when all have answered, and after the timeout at the latest."""
        number = next(self._numbers)
        loop = asyncio.get_running_loop()
        asked = self._asked[number] = {}
        for session in routers:
            asked[session.identity.id] = loop.create_future()
            session.questions.put_nowait(replace(question, number=number))
        try:
            if asked:
                await asyncio.wait(asked.values(), timeout=self._timeout_s)
        finally:
            del self._asked[number]
        said = {name: each.result() for name, each in asked.items() if each.done() and not each.cancelled()}
        return Answers(said, tuple(sorted(asked.keys() - said.keys())))

    def heard(self, router_id: str, answers: Iterable[DecisionAnswer]) -> None:
        """Answers that nobody waits for any more are passed over."""
        for answer in answers:
            waiting = self._asked.get(answer.number, {}).get(router_id)
            if waiting is not None and not waiting.done():
                waiting.set_result(answer)

    def left(self, router_id: str) -> None:
        """Nobody waits for one that is gone."""
        for asked in self._asked.values():
            waiting = asked.get(router_id)
            if waiting is not None:
                waiting.cancel()
