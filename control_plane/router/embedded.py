"""The router, wherever it lives: inside a gateway process, one hop less for every token, or in one of its own.

It does not know which. Who hosts it says under which identity it joins the fleet and whose figures it reports; a
gateway then calls it, and ``server.RouterServer`` calls it for gateways elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from control_plane.contracts.call import CallHandle, CallSink, RoutedCall, TokenizerBundle
from control_plane.contracts.decision import DecisionAnswer, DecisionQuestion
from control_plane.contracts.errors import InferDeckError, SettingsError
from control_plane.contracts.fleet import (
    CancelOutcome,
    Endpoint,
    EndpointSet,
    GatewayIdentity,
    GatewayStats,
    ModelView,
    RouterSet,
)
from control_plane.contracts.model_choice import ModelAsk, ModelChoice
from control_plane.contracts.model_routes import ModelRoutes
from control_plane.contracts.routing import BUILT_IN, Routing
from control_plane.router.beliefs import Beliefs
from control_plane.router.decisions import answering
from control_plane.router.dispatcher import Dispatcher
from control_plane.router.fleet_watch import FleetWatch
from control_plane.router.forwarder import WorkerLink, fetch_tokenizer
from control_plane.router.ledger import Account, Ledger
from control_plane.router.scheduling.profile import PROFILES, build
from control_plane.router.selector import Selector
from control_plane.router.targets import Target
from control_plane.router.tokenizers import Tokenizers
from control_plane.settings.model import RouterSettings

_log = logging.getLogger(__name__)


class EmbeddedRouter:
    """Implements ``contracts.call.Router``. Everything happens on the loop that ``start`` runs on.

    ``identity`` is asked when the router joins, so the host's port may be chosen late. ``fleet_address`` gives the
    control plane's address, or None while there is none, ``fleet_secure`` whether it speaks mutual TLS; they and
    ``operator_key`` are asked at every attempt. ``credentials`` is the file by which this router proves who it is.
    ``stats`` are the host's own; the router puts in how many calls wait. Raises SettingsError for an unknown
    profile.
    """

    def __init__(
        self,
        *,
        router_id: str,
        identity: Callable[[], GatewayIdentity],
        fleet_address: Callable[[], str | None],
        operator_key: Callable[[], str],
        stats: Callable[[], GatewayStats],
        settings: RouterSettings,
        credentials: str = "",
        fleet_secure: Callable[[], bool] = lambda: False,
        rng: Random | None = None,
    ) -> None:
        if settings.profile not in PROFILES:
            known = ", ".join(sorted(PROFILES))
            raise SettingsError(f"no routing profile {settings.profile!r}; there are {known}", param="router.profile")
        self._settings = settings
        self._described = (settings.profile, BUILT_IN[settings.profile])
        self._rng = rng or Random()
        self._router_id = router_id
        self._stats = stats
        self._ledger = Ledger(router_id)
        self._links: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._credentials = credentials
        self._watch = FleetWatch(
            address=fleet_address,
            operator_key=operator_key,
            identity=identity,
            reported=self,
            credentials=lambda: credentials if fleet_secure() else "",
        )
        self.dispatcher = Dispatcher(
            ledger=self._ledger,
            profile=PROFILES[settings.profile](self._rng),
            retries=settings.retries,
            queue_timeout_s=settings.queue_timeout_s,
            clock=time.monotonic,
            arm=self._arm,
            open_link=self._open_link,
            changed=self._watch.nudge,
        )
        self._beliefs = Beliefs(self.dispatcher.targets)
        self._selector = Selector(self.dispatcher.catalogue, self._rng)
        self._tokenizers = Tokenizers(
            lambda model: [target.endpoint for target in self.dispatcher.targets.serving(model)], self._fetch
        )
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to join the fleet; returns at once, ``ready`` tells when calls can be placed."""
        self._watching = asyncio.get_running_loop().create_task(self._watch.run(), name="fleet-watch")

    async def close(self) -> None:
        """End every call that still runs, tell the fleet, leave nothing open. Idempotent."""
        self.dispatcher.close()
        if self._timer is not None:
            self._timer.cancel()
        if self._watching is not None:
            await self._watch.farewell()
            self._watching.cancel()
        tasks = [*self._links, *([self._watching] if self._watching is not None else [])]
        for task in tasks:
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
        if not len(self._ledger):
            self._watch.nudge()
        return self.dispatcher.submit(call, sink)

    def models(self) -> Sequence[ModelView]:
        return self.dispatcher.catalogue.all()

    def ready(self) -> bool:
        return self.dispatcher.catalogue.any_ready()

    def max_context(self, model: str) -> int:
        """Tokens of prompt and output, as the workers say it where the fleet does not; 0 where nobody does."""
        return self.dispatcher.catalogue.most_tokens(model)

    @property
    def joined(self) -> bool:
        """Whether it has heard of the fleet; until then it refuses every call."""
        return self.dispatcher.catalogue.known

    @property
    def in_flight(self) -> int:
        """Calls that were submitted and have not ended."""
        return len(self._ledger)

    @property
    def profile(self) -> str:
        return self.dispatcher.placement.profile.name

    async def tokenizer_files(self, model: str) -> TokenizerBundle:
        self.dispatcher.catalogue.get(model)
        return await self._tokenizers.get(model)

    # --- fleet_watch.Reported

    def apply(self, update: EndpointSet) -> None:
        self.dispatcher.apply(update)

    def routers(self, update: RouterSet) -> None:
        """It needs none beside it."""

    def route(self, routing: Routing) -> None:
        """Take over how operators want calls to be let in and endpoints to be chosen from now on. A profile of a newer
        version that this router cannot follow changes nothing of it."""
        self._selector.take(routing.models)
        self.dispatcher.admit_by(routing.admission)
        wanted = routing.profile or self._settings.profile
        described = routing.named(wanted)
        if described is not None and (wanted, described) == self._described:
            return
        try:
            if described is None:
                raise KeyError(wanted)
            profile = build(wanted, described, self._rng)
        except KeyError as error:
            _log.error("this routing profile cannot be followed", extra={"profile": wanted, "unknown": str(error)})
            return
        self.dispatcher.placement.profile, self._described = profile, (wanted, described)
        _log.info("the routing profile was changed", extra={"profile": wanted})

    def cancel(self, request_id: str) -> CancelOutcome:
        return self.dispatcher.cancel(request_id)

    def asked(self, question: DecisionQuestion) -> Callable[[], DecisionAnswer]:
        return answering(self.dispatcher.placement.decisions, self._router_id, question)

    def account(self) -> Account:
        now = time.monotonic()
        return replace(self._ledger.take(now), kv_beliefs=self._beliefs.take(now))

    def put_back(self, account: Account) -> None:
        self._ledger.put_back(account)
        self._beliefs.put_back(account.kv_beliefs)

    def stats(self) -> GatewayStats:
        return replace(self._stats(), queued=self.dispatcher.queued, pressures=self.dispatcher.pressures())

    # --- inside

    async def _fetch(self, endpoint: Endpoint, expected_hash: str) -> dict[str, bytes]:
        return await fetch_tokenizer(endpoint.address, expected_hash, self._credentials if endpoint.secure else "")

    def _open_link(self, target: Target) -> WorkerLink:
        link = WorkerLink(target, self._router_id, self.dispatcher, self._credentials)
        self._links.add(link.task)
        link.task.add_done_callback(self._links.discard)
        return link

    def _arm(self, at: float) -> None:
        """The dispatcher wants a tick at this monotonic time; it asks anew for every later one."""
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_later(max(0.0, at - time.monotonic()), self.dispatcher.tick)
