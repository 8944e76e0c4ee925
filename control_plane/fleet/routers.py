"""Gateways and routers that have joined: one session each, what they report, and what goes down to them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from control_plane.contracts.decision import DecisionQuestion
from control_plane.contracts.fleet import (
    CancelOutcome,
    GatewayIdentity,
    GatewayStats,
    Histogram,
    Latency,
    Member,
    RouterEndpoint,
    RouterReport,
)
from control_plane.contracts.histogram import LatencyHistogram
from control_plane.contracts.kv_belief import KvBelief
from control_plane.fleet.changes import Changes
from control_plane.fleet.latency import RollingLatency
from control_plane.fleet.questions import Questions
from control_plane.fleet.requests import Requests

CANCEL_TIMEOUT_S: Final = 3.0
LOST_TURNS: Final = 10
"""Turns of ``expire``, one a second, without a report, where one comes every second or two: its process hangs. Turns,
so that a control plane that stood still itself does not take that for silence."""

REJOIN_S: Final = 10.0
"""How long the requests of a router whose stream broke are believed to run on."""

MOST_BELIEFS: Final = 10_000

_RATE_S: Final = 5.0


@dataclass(slots=True)
class Session:
    """One router, from its hello on. ``cancels`` are the request ids that it is to be told; None ends it.
    ``missed`` counts turns without a report. ``questions`` are those that it is to answer with a report.
    ``kv_beliefs``: by worker id, what it said last of what its prefix index holds."""

    identity: GatewayIdentity
    stats: GatewayStats = field(default_factory=GatewayStats)
    report_unix: float = 0.0
    left_at: float | None = None
    missed: int = 0
    cancels: asyncio.Queue[str | None] = field(default_factory=asyncio.Queue)
    questions: asyncio.Queue[DecisionQuestion] = field(default_factory=asyncio.Queue)
    kv_beliefs: dict[str, KvBelief] = field(default_factory=dict)
    _latency: RollingLatency = field(default_factory=RollingLatency)
    _tokens: deque[tuple[float, int]] = field(default_factory=deque)

    @property
    def joined(self) -> bool:
        return self.left_at is None

    @property
    def lost(self) -> bool:
        """Whether it has fallen silent, though its stream stands."""
        return self.joined and self.missed >= LOST_TURNS

    @property
    def is_router(self) -> bool:
        """Whether it is a process of its own, that gateways ask."""
        return self.identity.kind == Member.ROUTER

    @property
    def decides(self) -> bool:
        """Whether it chooses endpoints, and can say why: a gateway that asks routers does not."""
        return self.identity.kind != Member.FRONT

    def measure(self, now: float, report: RouterReport) -> None:
        if report.stats is not None:
            self.stats = report.stats
            self._tokens.append((now, report.stats.output_tokens_total))
            while now - self._tokens[0][0] > _RATE_S and len(self._tokens) > 2:
                self._tokens.popleft()
        if len(self.kv_beliefs) > MOST_BELIEFS:
            self.kv_beliefs.clear()  # of workers that are no more; it tells those of the others again
        for belief in report.kv_beliefs:
            self.kv_beliefs[belief.worker_id] = replace(belief, gateway_id=self.identity.id)
        if report.ttft or report.itl:
            self._latency.add(now, _merged(report.ttft.values()), _merged(report.itl.values()))

    def latency(self, now: float) -> Latency:
        return self._latency.latency(now)

    def tokens_per_s(self) -> float:
        """Over the last seconds."""
        if len(self._tokens) < 2:
            return 0.0
        (begin, first), (end, last) = self._tokens[0], self._tokens[-1]
        return max(0.0, (last - first) / (end - begin)) if end > begin else 0.0


class Routers:
    """``on_progress`` is told of workers whose tokens reached a router, ``on_limit_store`` of gateways whose store of
    limits came or went: "up" or "down", ``on_silence`` of members that fell silent, or report again."""

    def __init__(
        self,
        requests: Requests,
        changes: Changes,
        on_progress: Callable[[str], None],
        on_limit_store: Callable[[str, str], None] = lambda gateway_id, state: None,
        on_silence: Callable[[Session], None] = lambda session: None,
    ) -> None:
        self._requests = requests
        self._changes = changes
        self._on_progress = on_progress
        self._on_limit_store = on_limit_store
        self._on_silence = on_silence
        self._sessions: dict[str, Session] = {}
        self._asked: list[tuple[str, dict[str, asyncio.Future[CancelOutcome]]]] = []
        self.questions = Questions()

    def all(self) -> tuple[Session, ...]:
        """Every router that is known, joined or not, by id."""
        return tuple(self._sessions[name] for name in sorted(self._sessions))

    def get(self, gateway_id: str) -> Session | None:
        return self._sessions.get(gateway_id)

    def join(self, identity: GatewayIdentity) -> Session:
        """A router says hello. An earlier session of the same id ends."""
        old = self._sessions.get(identity.id)
        if old is not None:
            if old.joined:
                self._end(old)
            if old.identity.pid != identity.pid:
                self._gone(old)
        session = Session(identity, report_unix=time.time())
        self._sessions[identity.id] = session
        if old is not None and old.missed >= LOST_TURNS and old.identity.pid == identity.pid:
            self._on_silence(session)
        self._changes.bump()
        return session

    def report(self, session: Session, report: RouterReport) -> None:
        if self._sessions.get(session.identity.id) is not session:
            return
        now = time.monotonic()
        session.report_unix = time.time()
        was_lost, session.missed = session.lost, 0
        if was_lost:
            self._on_silence(session)
        before = session.stats.limit_store
        session.measure(now, report)
        if (state := session.stats.limit_store) != before and "down" in (before, state):
            self._on_limit_store(session.identity.id, state)
        for worker_id in report.ttft.keys() | report.itl.keys():
            self._requests.measured(worker_id, now, report.ttft.get(worker_id), report.itl.get(worker_id))
        progressed = self._requests.report(session.identity.id, report.active, report.ended)
        for worker_id in progressed | report.itl.keys() | report.ttft.keys():
            self._on_progress(worker_id)
        for outcome in report.cancels:
            for request_id, asked in self._asked:
                answer = asked.get(session.identity.id) if request_id == outcome.request_id else None
                if answer is not None and not answer.done():
                    answer.set_result(outcome)
        self.questions.heard(session.identity.id, report.answers)
        self._changes.bump()

    def leave(self, session: Session) -> None:
        """The stream is over. The gateway may go on serving, and join again."""
        if self._sessions.get(session.identity.id) is session:
            self._end(session)
            self._changes.bump()

    def lost(self, gateway_id: str) -> int:
        """The process has ended: so have its requests, where it was a gateway's. Returns how many."""
        session = self._sessions.pop(gateway_id, None)
        if session is not None:
            self._end(session)
        self._changes.bump()
        return self._gone(session) if session is not None else self._requests.gateway_lost(gateway_id)

    def endpoints(self) -> tuple[RouterEndpoint, ...]:
        """Where gateways find the routers that are processes of their own and have joined, by id."""
        return tuple(
            RouterEndpoint(session.identity.id, session.identity.url, session.identity.secure)
            for session in self.all()
            if session.is_router and session.joined
        )

    def expire(self, now: float) -> None:
        """Give up on routers that left long ago, and see which of the others are silent. Once a second."""
        for session in self.all():
            if session.joined:
                session.missed += 1
                if session.missed == LOST_TURNS:
                    self._on_silence(session)
                    self._changes.bump()
            if session.left_at is not None and now - session.left_at > REJOIN_S:
                self.lost(session.identity.id)

    async def cancel(self, request_id: str) -> tuple[CancelOutcome, bool]:
        """Ask all that have joined to cancel a request; found if one of them had it. Where it is not cancelled and some
        do not answer in time, the others are asked once more: by then a gateway knows which routers are silent, and
        ends what those have. Also returns whether all have answered, or need not."""
        asked: dict[str, asyncio.Future[CancelOutcome]] = {}
        self._asked.append((request_id, asked))
        try:
            await self._ask(request_id, asked, self._joined())
            outcome, silent = _outcome(request_id, asked), {name for name, answer in asked.items() if not answer.done()}
            if _cancelled(outcome) or not silent:
                return outcome, True
            await self._ask(request_id, asked, [each for each in self._joined() if each.identity.id not in silent])
            return _outcome(request_id, asked), False
        finally:
            self._asked = [each for each in self._asked if each[1] is not asked]

    async def _ask(
        self, request_id: str, asked: dict[str, asyncio.Future[CancelOutcome]], sessions: Iterable[Session]
    ) -> None:
        """Until all of these have answered or one has cancelled it, or the time is over."""
        owed: set[asyncio.Future[CancelOutcome]] = set()
        for session in sessions:
            asked[session.identity.id] = asyncio.get_running_loop().create_future()
            owed.add(asked[session.identity.id])
            session.cancels.put_nowait(request_id)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CANCEL_TIMEOUT_S):
                while owed and not _cancelled(_outcome(request_id, asked)):
                    _, owed = await asyncio.wait(owed, return_when=asyncio.FIRST_COMPLETED)

    def _joined(self) -> list[Session]:
        return [session for session in self._sessions.values() if session.joined]

    def _gone(self, session: Session) -> int:
        if session.is_router:
            self._requests.router_lost(session.identity.id)
            return 0
        return self._requests.gateway_lost(session.identity.id)

    def _end(self, session: Session) -> None:
        session.left_at = time.monotonic()
        session.cancels.put_nowait(None)
        self.questions.left(session.identity.id)
        for _, answers in self._asked:
            answer = answers.get(session.identity.id)
            if answer is not None and not answer.done():
                answer.cancel()


def _outcome(request_id: str, asked: dict[str, asyncio.Future[CancelOutcome]]) -> CancelOutcome:
    """Of those that have answered: one that gave it up says that it has ended, though it goes on at another."""
    told = [answer.result() for answer in asked.values() if answer.done() and not answer.cancelled()]
    found = any(each.found for each in told)
    return CancelOutcome(request_id, found, found and not any(map(_cancelled, told)))


def _cancelled(outcome: CancelOutcome) -> bool:
    return outcome.found and not outcome.already_ended


def _merged(parts: Iterable[Histogram]) -> Histogram:
    return Histogram(LatencyHistogram.merged(LatencyHistogram(part.buckets) for part in parts).buckets)
