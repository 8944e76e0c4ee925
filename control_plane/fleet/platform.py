"""Everything that one control plane runs, put together."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Final

from control_plane.contracts.errors import NotFound
from control_plane.contracts.fleet import RequestView, ShutdownProgress
from control_plane.contracts.identity import Peer
from control_plane.contracts.router_state import RouterState
from control_plane.fleet.changes import Changes
from control_plane.fleet.controller import Controller
from control_plane.fleet.decisions import Decisions
from control_plane.fleet.events import Events
from control_plane.fleet.gateways import Gateways
from control_plane.fleet.launcher.base import Launcher
from control_plane.fleet.logs import Logs
from control_plane.fleet.operations import Operations
from control_plane.fleet.pools import Pools
from control_plane.fleet.requests import Requests
from control_plane.fleet.router_client import router_state
from control_plane.fleet.router_processes import RouterProcesses
from control_plane.fleet.routers import Routers, Session
from control_plane.fleet.snapshots import Snapshots
from control_plane.fleet.span_export import SpanExport, check_installed
from control_plane.fleet.timelines import Timelines
from control_plane.settings import Home, Settings
from control_plane.store import Conversations, Database, DesiredState, EventLog, Turns
from control_plane.store.patience import Patience
from control_plane.store.sweep import sweep
from control_plane.tasks import Tasks
from control_plane.trust.keyring import Keyring

RENEW_S: Final = 60.0
SWEEP_S: Final = 3600.0

log = logging.getLogger(__name__)


class Platform:
    """Made inside a running loop; ``start`` … ``shutdown``. ``urls_changed`` hears when a gateway listens;
    ``site`` is this fleet's name in a database that several share."""

    def __init__(
        self,
        settings: Settings,
        home: Home,
        database: Database,
        launcher: Launcher,
        urls_changed: Callable[[], None] = lambda: None,
        config: Path | None = None,
        site: str = "",
    ) -> None:
        self.id = f"cp-{secrets.token_hex(4)}"
        self.changes = Changes()
        self.logs = Logs(home.logs)
        self.requests = Requests(self._ended_requests)
        store = DesiredState(database, site)
        self.events = Events(EventLog(database, site=site), self.changes)
        self.pools = Pools(settings.pools, home, store, settings.security.mutual_tls, settings.written)
        self._keyring = Keyring(home.tls)
        self.controller = Controller(
            self.pools,
            launcher,
            self.events,
            self.requests,
            self.changes,
            store.cordoned(),
            str(self._keyring.peer(Peer.CONTROL_PLANE)),
        )
        self.routers = Routers(
            self.requests, self.changes, self.controller.progressed, self._limit_store, self._silence
        )
        self.gateways = Gateways(
            settings.gateway,
            home,
            config,
            self.events,
            self.routers,
            self.changes,
            urls_changed,
            fronts=settings.router.replicas > 0,
        )
        self.router_processes = RouterProcesses(
            settings.router, settings.security.mutual_tls, home, config, self.events, self.routers, self.changes
        )
        self.operations = Operations(
            self.controller, self.pools, self.events, self.requests, self.routers, self.changes
        )
        self.decisions = Decisions(self.requests, self.routers)
        self.conversations = Conversations(database)
        self._turns = Turns(database)
        self._patience = Patience()
        self.timelines = Timelines(self.requests, self.controller)
        check_installed(settings.telemetry)
        self._spans = SpanExport(settings.telemetry, self.timelines)
        self.snapshots = Snapshots(
            self.id,
            self.pools,
            self.controller,
            self.gateways,
            self.router_processes,
            self.routers,
            self.requests,
            self.events,
            self.changes,
        )
        self.ended = asyncio.Event()
        self._launcher = launcher
        self._home = home
        self._tasks = Tasks()
        self._shutting_down: asyncio.Task[None] | None = None
        self._progress: list[ShutdownProgress] = []
        self._hurry = asyncio.Event()

    def adopt(self) -> None:
        """Take over the workers that an earlier control plane left, before anybody asks about them."""
        self.controller.step()

    async def find(self) -> None:
        """Look for the gateways and routers that an earlier control plane left. Once, before ``start``."""
        await self.gateways.find()
        await self.router_processes.find()

    def start(self) -> None:
        """Make what is there what is wanted, from now on. ``find`` comes before."""
        self._tell_of_scales()
        self.router_processes.start()
        self.gateways.start()
        self._tasks.keep(self.controller.run, "controller")
        self._tasks.keep(self.logs.keep_short, "logs")
        self._tasks.keep(self._expire, "routers")
        self._tasks.keep(self._renew, "credentials")
        self._tasks.keep(self._sweep, "sweep")
        if self._spans.wanted:
            self._tasks.keep(self._spans.run, "spans")

    def request_shutdown(self, grace_s: float) -> None:
        """Begin to shut down. Asked again, the earlier end of the grace counts."""
        if self._shutting_down is None:
            self._shutting_down = asyncio.create_task(self._shut_down(grace_s), name="shutdown")
        else:
            asyncio.get_running_loop().call_later(max(grace_s, 0.0), self._hurry.set)

    async def shutdown(self, grace_s: float) -> AsyncIterator[ShutdownProgress]:
        """Shut down, or watch the shutdown that is under way; the last progress is done."""
        self.request_shutdown(grace_s)
        told = 0
        while True:
            revision = self.changes.revision
            while told < len(self._progress):
                told += 1
                yield self._progress[told - 1]
                if self._progress[told - 1].done:
                    return
            await self.changes.after(revision, 1.0)

    async def _shut_down(self, grace_s: float) -> None:
        counted = sum(self.controller.in_flight(worker) for worker in self.controller.workers.values())
        running = max(len(self.requests.active()), counted)
        self._tell(f"shutting down, {running} requests run" if running else "shutting down")
        self.events.record("shutdown", "control-plane", f"shutdown asked for, grace {grace_s:g} s")
        try:
            gateways = [gateway.id for gateway in self.gateways.all() if gateway.pid]
            await self.gateways.stop(grace_s, self._hurry)
            self._tell(f"gateways stopped: {', '.join(gateways) or 'none ran'}")
            routers = [router.id for router in self.router_processes.all() if router.pid]
            # Also where none runs at this moment: one that crashed is begun again else.
            await self.router_processes.stop(0.0, self._hurry)
            if routers:
                self._tell(f"routers stopped: {', '.join(routers)}")
            workers = [worker.id for worker in self.controller.ordered() if worker.has_process]
            await asyncio.gather(self.controller.halt(0.0), self._launcher.close())
            await self.controller.sweep()
            self._tell(f"workers stopped: {', '.join(workers) or 'none ran'}")
            self._patience.hurry()
            await self._tasks.cancel()
            await self.events.close()
            self._remove_drafts()
        except BaseException:
            log.exception("the shutdown failed")
            self._tell("the shutdown failed, see the control plane's log")
            raise
        finally:
            self._tell("stopped", done=True)
            self.ended.set()

    async def router_state(self, router_id: str) -> RouterState:
        """How a router that is a process of its own sees its endpoints. Raises NotFound, or Unavailable while it does
        not answer."""
        session = self.routers.get(router_id)
        if session is None or not session.is_router:
            names = ", ".join(view.id for view in self.snapshots.snapshot().routers)
            raise NotFound(
                f"no router named {router_id} has joined; there are: {names or 'none but those inside the gateways'}",
                param="router_id",
                hint="inferdeck get routers",
            )
        credentials = str(self._keyring.peer(Peer.CONTROL_PLANE)) if session.identity.secure else ""
        return await router_state(session.identity.url, credentials)

    def _ended_requests(self, ended: Sequence[RequestView]) -> None:
        self._spans.ended(ended)

    def _tell(self, message: str, *, done: bool = False) -> None:
        log.info(message)
        self._progress.append(ShutdownProgress(message, done))
        self.changes.bump()

    def _limit_store(self, gateway_id: str, state: str) -> None:
        if state == "down":
            message = "the store of rate limits does not answer; until it does, the policy's limit_store_down holds"
            self.events.record("limit_store_down", f"gateway/{gateway_id}", message, "error")
        else:
            self.events.record("limit_store_up", f"gateway/{gateway_id}", "the store of rate limits answers again")

    def _tell_of_scales(self) -> None:
        for pool, (replicas, configured) in self.pools.scaled().items():
            message = f"{replicas} replicas, as it was scaled to; its settings say {configured}"
            self.events.record("scaled", f"pool/{pool}", message)

    def _silence(self, session: Session) -> None:
        noun, name = "router" if session.is_router else "gateway", session.identity.id
        if session.lost:
            message = "has joined and reports nothing any more: its process hangs"
            self.events.record(f"{noun}_lost", f"{noun}/{name}", message, "error")
        else:
            self.events.record(f"{noun}_back", f"{noun}/{name}", "reports again")

    def _remove_drafts(self) -> None:
        """Half-written files of processes that were killed while they wrote."""
        for folder in (self._home.workers, self._home.gateways, self._home.routers):
            for path in folder.glob(".*"):
                with contextlib.suppress(OSError):
                    path.unlink()

    async def _renew(self) -> None:
        """Credentials are made anew in time; whoever connects next uses them, and nothing that is open ends."""
        while True:
            await asyncio.sleep(RENEW_S)
            if self._keyring.ca.exists():
                for path in await asyncio.to_thread(self._keyring.renew):
                    self.events.record("credentials_renewed", f"cert/{path.stem}", f"{path} was made anew")

    async def _sweep(self) -> None:
        """Gateways sweep when they start; this is for what was left by one that never starts again, and for what grows
        old while nothing starts."""
        while True:
            await asyncio.to_thread(sweep, self._home.journals, self._turns, self._patience)
            await asyncio.sleep(SWEEP_S)

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self.routers.expire(asyncio.get_running_loop().time())
