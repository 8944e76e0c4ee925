"""Several routers, each a process of its own, as the one router that a gateway asks.

A call goes to the router with the least in flight. When one is lost, what it had goes to another: from its beginning
where nothing was said yet, from prompt and tokens so far where something was and that can be done. The next router has
no part in the old attempt, and nobody goes on with that: the workers abort the calls of a stream that ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from control_plane.contracts.call import CallHandle, CallSink, RoutedCall, TokenizerBundle
from control_plane.contracts.decision import DecisionAnswer, DecisionQuestion
from control_plane.contracts.errors import DropReason, InferDeckError, Unavailable
from control_plane.contracts.fleet import (
    CancelOutcome,
    EndpointSet,
    GatewayIdentity,
    GatewayStats,
    ModelView,
    RequestPhase,
    RequestView,
    RouterSet,
)
from control_plane.contracts.model_choice import ModelAsk, ModelChoice
from control_plane.contracts.model_routes import ModelRoutes
from control_plane.contracts.routing import Routing
from control_plane.router import refusals
from control_plane.router.fleet_watch import FleetWatch
from control_plane.router.ledger import UNREPORTED_LIMIT, Account
from control_plane.router.migration import continued, obstacle
from control_plane.router.remote.call import RemoteCall
from control_plane.router.remote.choice import pick
from control_plane.router.remote.link import RouterLink, key_of
from control_plane.router.remote.queue import CallQueue
from control_plane.router.remote.served import ServedModels
from control_plane.router.remote.tokenizer import fetch_bundle
from control_plane.router.selector import Selector
from control_plane.settings.model import RouterSettings

_log = logging.getLogger(__name__)


class RemoteRouter:
    """Implements ``contracts.call.Router``. Everything happens on the loop that ``start`` runs on.

    The arguments are those of ``embedded.EmbeddedRouter``. Where the routers are comes from the control plane; while
    that is away, those that are known go on.
    """

    def __init__(
        self,
        *,
        gateway_id: str,
        identity: Callable[[], GatewayIdentity],
        fleet_address: Callable[[], str | None],
        operator_key: Callable[[], str],
        stats: Callable[[], GatewayStats],
        settings: RouterSettings,
        credentials: str = "",
        fleet_secure: Callable[[], bool] = lambda: False,
        rng: Random | None = None,
    ) -> None:
        self._gateway_id = gateway_id
        self._stats = stats
        self._settings = settings
        self._credentials = credentials
        self._rng = rng or Random()
        self._watch = FleetWatch(
            address=fleet_address,
            operator_key=operator_key,
            identity=identity,
            reported=self,
            credentials=lambda: credentials if fleet_secure() else "",
        )
        self._watching: asyncio.Task[None] | None = None
        self._links: dict[str, RouterLink] = {}
        self._served = ServedModels()
        self._selector = Selector(self._served, self._rng)
        self._bundles: dict[str, TokenizerBundle] = {}
        self._queue = CallQueue(send=self._sent_or_dropped, over=self._fail)
        self._ended: deque[RequestView] = deque(maxlen=UNREPORTED_LIMIT)
        self._closing: set[asyncio.Task[None]] = set()
        self._seq = 0
        self._closed = False

    async def start(self) -> None:
        """Begin to join the fleet; returns at once, ``ready`` tells when calls can be placed."""
        self._watching = asyncio.get_running_loop().create_task(self._watch.run(), name="fleet-watch")

    async def close(self) -> None:
        """End every call that still runs, tell the fleet, leave nothing open. Idempotent."""
        self._closed = True
        for link in tuple(self._links.values()):
            for call in tuple(link.calls.values()):
                link.withdraw(call, DropReason.DRAINING, None)
                self._fail(call, refusals.closing(), told=True)
        for call in self._queue:
            self._fail(call, refusals.closing())
        self._queue.close()
        await asyncio.sleep(0)  # what was withdrawn is written
        for link in tuple(self._links.values()):
            self._drop(link)
        if self._watching is not None:
            await self._watch.farewell()
            self._watching.cancel()
        for task in (*self._closing, *([self._watching] if self._watching is not None else [])):
            with contextlib.suppress(asyncio.CancelledError):
                await task

    # --- contracts.call.Router

    def select(self, ask: ModelAsk, then: Callable[[ModelChoice | InferDeckError], None]) -> None:
        self._selector.select(ask, then)

    def instead(self, ask: ModelAsk, chosen: ModelChoice, then: Callable[[ModelChoice | None], None]) -> None:
        self._selector.instead(ask, chosen, then)

    def routes(self) -> ModelRoutes | None:
        return self._selector.routes()

    def submit(self, call: RoutedCall, sink: CallSink) -> CallHandle:
        if self._closed:
            raise refusals.closing()
        refusals.check_fits(call, self._served.get(call.model).max_context)
        now = time.monotonic()
        own = call.queue_timeout_s
        wait_s = self._settings.queue_timeout_s if own is None else own
        if not any(link.calls for link in self._links.values()):
            self._watch.nudge()
        self._seq += 1
        made = RemoteCall(self, call, sink, self._seq, now, wait_s)
        if not self._send(made, call):
            raise refusals.no_router()
        return made

    def models(self) -> Sequence[ModelView]:
        return self._served.views or ()

    def ready(self) -> bool:
        return any(link.standing.usable and link.standing.ready for link in self._links.values())

    async def tokenizer_files(self, model: str) -> TokenizerBundle:
        self._served.get(model)
        known = self._bundles.get(model)
        failure: InferDeckError = refusals.no_router()
        for link in self._rng.sample(list(self._links.values()), len(self._links)):
            if not link.standing.usable:
                continue
            credentials = self._credentials if link.endpoint.secure else ""
            try:
                bundle = await fetch_bundle(link.endpoint.address, model, known, credentials)
            except InferDeckError as error:
                failure = error
            else:
                self._bundles[model] = bundle
                return bundle
        if known is not None and isinstance(failure, Unavailable):
            return known
        raise failure

    # --- fleet_watch.Reported

    def apply(self, update: EndpointSet) -> None:
        """Workers are the routers' business."""

    def route(self, routing: Routing) -> None:
        """How endpoints are chosen is theirs as well; which model a name leads to is asked here, before a call has a
        router."""
        self._selector.take(routing.models)

    def routers(self, update: RouterSet) -> None:
        """The whole set, which replaces the last one. A router that is in it no longer is used as long as its stream
        lives: a control plane that has just started knows of none."""
        named = {key_of(endpoint): endpoint for endpoint in update.routers}
        for key, endpoint in named.items():
            link = self._links.get(key)
            if link is None and not self._closed:
                link = self._links[key] = RouterLink(endpoint, self._gateway_id, self, self._credentials)
            if link is not None:
                link.leaving = False
        for key, link in tuple(self._links.items()):
            if key not in named:
                link.leaving = True
                if not link.standing.connected:
                    self._drop(link)

    def cancel(self, request_id: str) -> CancelOutcome:
        """An operator ends a request. What a router has, it is told of itself; one that is silent does not hear it, and
        what it has would go on at the next."""
        silent = (link for link in self._links.values() if link.standing.missed)
        for call in (*self._queue, *(call for link in silent for call in link.calls.values())):
            if call.call.request_id == request_id:
                if call.link is not None:
                    call.link.withdraw(call, DropReason.REQUEST_CANCELLED, None)
                self._fail(call, refusals.cancelled_by_operator(), RequestPhase.CANCELLED)
                return CancelOutcome(request_id, found=True)
        return CancelOutcome(request_id, found=False)

    def asked(self, question: DecisionQuestion) -> Callable[[], DecisionAnswer]:
        """It decides nothing: routers do."""
        return lambda: DecisionAnswer(question.number)

    def account(self) -> Account:
        """What no router reports: calls that wait for one, and those that ended so."""
        now = time.monotonic()
        waiting = tuple(call.view(self._gateway_id, RequestPhase.QUEUED, "", now) for call in self._queue)
        account = Account(waiting, tuple(self._ended))
        self._ended.clear()
        return account

    def put_back(self, account: Account) -> None:
        room = UNREPORTED_LIMIT - len(self._ended)
        if room > 0:
            self._ended.extendleft(reversed(account.ended[-room:]))

    def stats(self) -> GatewayStats:
        return replace(self._stats(), queued=len(self._queue))

    # --- from links

    def news(self, link: RouterLink) -> None:
        self._refresh()
        if link.standing.usable:
            self._queue.drain()

    def link_down(self, link: RouterLink, cause: str) -> None:
        if link.leaving:
            self._drop(link)
        for call in sorted(link.calls.values(), key=lambda call: call.seq):
            if call.link is not link:
                continue  # it was left when another one's end was told
            link.release(call)
            try:
                self._lost(call)
            except Exception:
                self._not_handed_on(call)
        self._refresh()

    def refused(self, link: RouterLink, call: RemoteCall, error: InferDeckError) -> None:
        if error.reason is not DropReason.DRAINING:
            self._fail(call, error, told=True)
            return
        # It is the router that ends, not the call: another one will have it.
        link.standing.draining = True
        if call.begun:
            self._lost(call)
        else:
            self._send_or_queue(call)

    def sink_broke(self, call: RemoteCall) -> None:
        """The gateway's side of a call failed: generating on would be for nobody."""
        self.left(call, DropReason.INTERNAL_ERROR, None)

    # --- from calls

    def left(self, call: RemoteCall, reason: str, used: Callable[[int], None] | None) -> None:
        """The client is gone: the sink hears nothing more. ``used`` hears what its worker counted, or at once what was
        told so far where no router has it."""
        if call.over:
            return
        call.over = True
        if call.link is not None:
            call.link.withdraw(call, reason or DropReason.REQUEST_CANCELLED, used)
        else:
            if used is not None:
                used(len(call.said))
            self._end(call, RequestPhase.CANCELLED, reason or DropReason.REQUEST_CANCELLED)

    # --- inside

    def _refresh(self) -> None:
        """What can be served now, by all routers that can be reached."""
        standing = [link for link in self._links.values() if link.standing.connected and link.standing.joined]
        self._served.merge(link.models for link in standing)

    def _send(self, call: RemoteCall, routed: RoutedCall) -> bool:
        """Whether there is a router that it could go to."""
        standing = pick([link.standing for link in self._links.values()], call.call.model, self._rng)
        if standing is None:
            return False
        self._links[standing.id].submit(call, routed)
        return True

    def _lost(self, call: RemoteCall) -> None:
        """Its router is gone, and perhaps because of it: not more often than allowed, workers included."""
        now = time.monotonic()
        call.attempts += 1
        stuck = obstacle(call.call, len(call.said)) if call.begun else ""
        if stuck or call.attempts > self._settings.retries:
            self._fail(call, refusals.router_lost(len(call.said), call.attempts, stuck))
            return
        if call.worker_id:
            call.deadline = now + call.wait_s  # it had waited enough, and had its turn
        _log.info(
            "a call goes on at another router" if call.begun else "a call is tried at another router",
            extra={
                "request_id": call.call.request_id,
                "retries": call.attempts,
                "output_tokens": len(call.said),
            },
        )
        self._send_or_queue(call)

    def _send_or_queue(self, call: RemoteCall) -> None:
        call.worker_id = ""
        if self._closed:
            self._fail(call, refusals.closing())
        elif not self._send_on(call):
            self._queue.add(call)
            self._watch.nudge()

    def _send_on(self, call: RemoteCall) -> bool:
        return self._send(call, self._rest_of(call))

    def _sent_or_dropped(self, call: RemoteCall) -> bool:
        """Whether it waits no more: one that cannot be handed on does not keep those behind it."""
        try:
            return self._send_on(call)
        except Exception:
            self._not_handed_on(call)
            return True

    def _rest_of(self, call: RemoteCall) -> RoutedCall:
        """The call for the next router."""
        first = call.first_mono - call.call.arrival_mono if call.first_mono and call.call.stream else 0.0
        return replace(
            continued(call.call, call.said),
            attempts=call.attempts,
            ttft_s=first,
            queue_timeout_s=max(0.0, call.deadline - time.monotonic()),
        )

    def _fail(
        self,
        call: RemoteCall,
        error: InferDeckError,
        phase: RequestPhase = RequestPhase.FAILED,
        *,
        told: bool = False,
    ) -> None:
        """Over, and the sink is told why. ``told``: operators hear it from the router."""
        if call.over:
            return
        call.over = True
        if told:
            self._queue.remove(call)
        else:
            self._end(call, phase, error.reason)
        try:
            call.sink.failed(error)
        except Exception:
            _log.exception("a sink failed", extra={"request_id": call.call.request_id})

    def _not_handed_on(self, call: RemoteCall) -> None:
        """In an ``except``: over, of a call that may be anywhere, since handing it on failed half way."""
        _log.exception("a call could not be taken elsewhere", extra={"request_id": call.call.request_id})
        if call.link is not None:
            call.link.withdraw(call, DropReason.INTERNAL_ERROR, None)
        self._fail(call, refusals.not_taken_elsewhere())

    def _end(self, call: RemoteCall, phase: RequestPhase, reason: str) -> None:
        self._queue.remove(call)
        self._ended.append(call.view(self._gateway_id, phase, reason, time.monotonic()))
        self._watch.nudge()

    def _drop(self, link: RouterLink) -> None:
        self._links.pop(link.standing.id, None)
        self._closing.add(link.task)
        link.task.add_done_callback(self._closing.discard)
        link.close()
