"""The stream to the control plane: endpoints and cancel commands come down, requests and measurements go up.

The fleet is not on the request path. While it is away the router serves on from the last endpoint set and keeps what
there is to report; it joins again as soon as somebody answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import Any, Protocol

import grpc

from control_plane.contracts.decision import DecisionAnswer, DecisionQuestion
from control_plane.contracts.errors import SettingsError
from control_plane.contracts.fleet import (
    CancelOutcome,
    EndpointSet,
    GatewayIdentity,
    GatewayStats,
    RouterSet,
)
from control_plane.contracts.identity import Peer
from control_plane.contracts.routing import Routing
from control_plane.contracts.v1 import decision_pb2
from control_plane.contracts.v1 import operator_pb2 as pb
from control_plane.contracts.v1.operator_pb2_grpc import FleetStub
from control_plane.contracts.wire.convert import from_wire, to_wire
from control_plane.contracts.wire.request_view import request_to_wire
from control_plane.contracts.wire.secure import open_channel
from control_plane.router.ledger import Account

_log = logging.getLogger(__name__)

REPORT_EVERY_S = 0.5
IDLE_REPORT_EVERY_S = 1.5
"""While there is nothing but the stats to tell."""
SHORTEST_GAP_S = 0.05
BUILDING_SHARE = 0.0015
"""Of the time, what building reports may take: the more there is to report, the less often it is done."""
CONNECT_TIMEOUT_S = 2.0
FIRST_BACKOFF_S = 0.1
LONGEST_BACKOFF_S = 2.0
LAST_WORDS_S = 0.5


class Reported(Protocol):
    """What the watch speaks for."""

    def apply(self, update: EndpointSet) -> None: ...

    def routers(self, update: RouterSet) -> None:
        """Where routers are; only to a gateway that has none inside."""
        ...

    def route(self, routing: Routing) -> None: ...

    def cancel(self, request_id: str) -> CancelOutcome: ...

    def asked(self, question: DecisionQuestion) -> Callable[[], DecisionAnswer]:
        """What is returned makes the answer, on any thread."""
        ...

    def account(self) -> Account: ...

    def put_back(self, account: Account) -> None: ...

    def stats(self) -> GatewayStats: ...


class FleetWatch:
    """``address``, ``operator_key`` and ``credentials`` are asked at every attempt: the next control plane may be
    somewhere else. ``credentials`` is the file of our own where the control plane wants to see it, else empty."""

    def __init__(
        self,
        *,
        address: Callable[[], str | None],
        operator_key: Callable[[], str],
        identity: Callable[[], GatewayIdentity],
        reported: Reported,
        credentials: Callable[[], str] = lambda: "",
    ) -> None:
        self._address = address
        self._operator_key = operator_key
        self._identity = identity
        self._reported = reported
        self._credentials = credentials
        self._outcomes: list[CancelOutcome] = []
        self._answers: list[decision_pb2.DecisionAnswer] = []
        self._answering: set[asyncio.Task[None]] = set()
        self._news = asyncio.Event()
        self._stream: Any = None
        self._reporter: asyncio.Task[None] | None = None
        self._heard = False

    def nudge(self) -> None:
        """There is something that should not wait for the next regular report."""
        self._news.set()

    async def run(self) -> None:
        """Join, and join again, until cancelled."""
        backoff, last_cause = FIRST_BACKOFF_S, ""
        while True:
            self._heard = False
            cause = await self._join()
            if self._heard:
                backoff, last_cause = FIRST_BACKOFF_S, ""
            if cause != last_cause:
                _log.warning("not joined to the control plane: %s", cause)
                last_cause = cause
            await asyncio.sleep(backoff)
            backoff = min(2 * backoff, LONGEST_BACKOFF_S)

    async def farewell(self) -> None:
        """One last report, where somebody listens. ``run`` must have nothing more to send: it is stopped after."""
        reporter, stream = self._reporter, self._stream
        if reporter is None or stream is None:
            return
        reporter.cancel()
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError, TimeoutError):
            async with asyncio.timeout(LAST_WORDS_S):
                await asyncio.wait({reporter})
                await self._send(stream)
                await stream.done_writing()

    async def _join(self) -> str:
        """One attempt and, where it succeeds, the whole time together. Returns why it is over."""
        address: str | None = None
        try:
            address = self._address()
            if address is None:
                return "none is known"
            metadata = (("authorization", f"Bearer {self._operator_key()}"),)
            async with open_channel(address, self._credentials(), Peer.CONTROL_PLANE) as channel:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    await channel.channel_ready()
                make_stub: Any = FleetStub
                await self._talk(make_stub(channel).Join(metadata=metadata))
        except grpc.aio.AioRpcError as error:
            return f"{error.code().name.lower()} at {address}: {error.details()}"
        except TimeoutError:
            return f"nobody answers at {address}"
        except SettingsError as error:
            return error.message
        except OSError as error:
            return f"its address or key can't be read: {error}"
        except Exception as error:
            _log.exception("the watch failed")
            return f"{type(error).__name__}: {error}"
        return f"the control plane at {address} ended the stream"

    async def _talk(self, stream: Any) -> None:
        self._reporter = asyncio.get_running_loop().create_task(self._report(stream))
        self._stream = stream
        try:
            while (update := await stream.read()) is not grpc.aio.EOF:
                self._take(update)
        finally:
            self._stream = None
            self._reporter.cancel()
            stream.cancel()
            self._answers.clear()  # whoever asked is gone

    def _take(self, update: pb.FleetUpdate) -> None:
        kind = update.WhichOneof("kind")
        if kind == "endpoints":
            if not self._heard:
                _log.info("joined the control plane", extra={"endpoints": len(update.endpoints.endpoints)})
            self._heard = True
            self._reported.apply(from_wire(update.endpoints, EndpointSet))
        elif kind == "routers":
            if not self._heard:
                _log.info("joined the control plane", extra={"routers": len(update.routers.routers)})
            self._heard = True
            self._reported.routers(from_wire(update.routers, RouterSet))
        elif kind == "routing":
            self._reported.route(from_wire(update.routing, Routing))
        elif kind == "cancel":
            self._outcomes.append(self._reported.cancel(update.cancel.request_id))
            self.nudge()
        elif kind == "question":
            answer = self._reported.asked(from_wire(update.question, DecisionQuestion))
            task = asyncio.get_running_loop().create_task(self._answer(answer))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

    async def _answer(self, answer: Callable[[], DecisionAnswer]) -> None:
        """Beside the loop: hundreds of decisions are to be written out."""
        try:
            wire = await asyncio.to_thread(lambda: to_wire(answer(), decision_pb2.DecisionAnswer))
        except Exception:
            _log.exception("a question about decisions could not be answered")
            return
        self._answers.append(wire)
        self.nudge()

    async def _report(self, stream: Any) -> None:
        try:
            await stream.write(pb.RouterReport(identity=to_wire(self._identity(), pb.GatewayIdentity)))
            while True:
                self._news.clear()
                gap_s, next_s = await self._send(stream)
                await asyncio.sleep(gap_s)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(next_s - gap_s):
                        await self._news.wait()
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            pass  # the reader hears of it too
        except Exception:
            _log.exception("a report could not be made")
            stream.cancel()

    async def _send(self, stream: Any) -> tuple[float, float]:
        """Returns how long to wait before the next one at least and at most, in seconds."""
        begin = time.thread_time()
        account, outcomes, answers = self._reported.account(), self._outcomes, self._answers
        self._outcomes, self._answers = [], []
        try:
            report = _to_wire(account, outcomes, self._reported.stats())
            report.answers.extend(answers)
            spent_s = time.thread_time() - begin
            await stream.write(report)
        except BaseException:
            self._reported.put_back(account)
            self._outcomes = outcomes + self._outcomes
            raise
        gap_s = min(REPORT_EVERY_S, max(SHORTEST_GAP_S, spent_s / BUILDING_SHARE))
        busy = account.active or account.ended or report.stats.in_flight
        return gap_s, REPORT_EVERY_S if busy else IDLE_REPORT_EVERY_S


def _to_wire(account: Account, outcomes: list[CancelOutcome], stats: GatewayStats) -> pb.RouterReport:
    report = pb.RouterReport(
        active=map(request_to_wire, account.active),
        ended=map(request_to_wire, account.ended),
        stats=to_wire(stats, pb.GatewayStats),
        cancels=[to_wire(outcome, pb.CancelOutcome) for outcome in outcomes],
        kv_beliefs=[to_wire(belief, pb.KvBelief) for belief in account.kv_beliefs],
    )
    for worker_id, meter in account.meters.items():
        if meter.ttft:
            report.ttft[worker_id].buckets.update(meter.ttft)
        if meter.itl:
            report.itl[worker_id].buckets.update(meter.itl)
    return report
