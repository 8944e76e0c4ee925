"""Everything that is known, as one value for operators and one for routers."""

from __future__ import annotations

import time
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version

from control_plane.contracts.fleet import (
    EndpointSet,
    GatewayView,
    ModelView,
    Pool,
    RouterSet,
    RouterView,
    Snapshot,
    WorkerPhase,
)
from control_plane.contracts.kv_belief import KvBelief
from control_plane.contracts.pressure import Pressure
from control_plane.contracts.routing import Routing
from control_plane.fleet.changes import Changes
from control_plane.fleet.controller import Controller
from control_plane.fleet.events import Events
from control_plane.fleet.gateways import Gateways
from control_plane.fleet.pools import Pools
from control_plane.fleet.pressures import pressures_by_model
from control_plane.fleet.requests import Requests
from control_plane.fleet.route_views import with_routes
from control_plane.fleet.router_processes import RouterProcesses
from control_plane.fleet.routers import Routers, Session
from control_plane.fleet.worker import Worker

EVENTS = 50


def package_version() -> str:
    try:
        return version("inferdeck")
    except PackageNotFoundError:
        return "unknown"


class Snapshots:
    """Builds both when asked; what was built for a revision is kept until the next one."""

    def __init__(
        self,
        control_plane_id: str,
        pools: Pools,
        controller: Controller,
        gateways: Gateways,
        router_processes: RouterProcesses,
        routers: Routers,
        requests: Requests,
        events: Events,
        changes: Changes,
    ) -> None:
        self._control_plane_id = control_plane_id
        self.version = package_version()
        self._pools = pools
        self._controller = controller
        self._gateways = gateways
        self._router_processes = router_processes
        self._routers = routers
        self._requests = requests
        self._events = events
        self._changes = changes
        self._routing = Routing()

    def lead(self, routing: Routing) -> None:
        """Show the names that lead to models, too, as the policy has them from now on."""
        if routing.models != self._routing.models:
            self._routing = routing
            self._changes.bump()

    def snapshot(self, *, finished_requests: bool = False) -> Snapshot:
        now = time.monotonic()
        routed = self._requests.in_flight()
        workers = self._controller.ordered()
        ended = self._requests.ended() if finished_requests else ()
        return Snapshot(
            revision=self._changes.revision,
            taken_unix=time.time(),
            control_plane_id=self._control_plane_id,
            version=self.version,
            pools=self._pool_views(),
            workers=tuple(
                replace(
                    worker.view(routed[worker.id], self._requests.latency(worker.id, now), now),
                    kv_beliefs=self._beliefs(worker),
                )
                for worker in workers
            ),
            gateways=self._gateway_views(now),
            requests=(*ended, *self._requests.active()),
            models=with_routes(self.models(), self._routing.models),
            events=self._events.recent(EVENTS),
            routers=self._router_views(now),
        )

    def endpoints(self) -> EndpointSet:
        """Every worker, whatever its phase: routers pick the ready ones, and know which of the others come."""
        now = time.monotonic()
        return EndpointSet(
            revision=self._changes.revision,
            endpoints=tuple(worker.endpoint(now) for worker in self._controller.ordered()),
            models=self.models(),
        )

    def routers(self) -> RouterSet:
        """Where gateways find routers that are processes of their own."""
        return RouterSet(self._changes.revision, self._routers.endpoints())

    def models(self) -> tuple[ModelView, ...]:
        """Every model that is configured, with or without workers."""
        workers = self._controller.ordered()
        views = []
        for name, pool in self._pools.settings.items():
            own = [worker for worker in workers if worker.pool == name]
            infos = [worker.info.model for worker in own if worker.info is not None and worker.info.model is not None]
            views.append(
                ModelView(
                    name=pool.model,
                    pool=name,
                    source=pool.source,
                    max_context=infos[0].max_context if infos else pool.max_context,
                    ready_workers=sum(worker.phase is WorkerPhase.READY for worker in own),
                    engine=pool.engine,
                    price_per_hour=pool.price_per_hour,
                )
            )
        return tuple(views)

    def _beliefs(self, worker: Worker) -> tuple[KvBelief, ...]:
        """Of the routers that have joined, on its present instance."""
        told = (session.kv_beliefs.get(worker.id) for session in self._routers.all() if session.joined)
        return tuple(belief for belief in told if belief is not None and belief.instance_id == worker.instance_id)

    def _pool_views(self) -> tuple[Pool, ...]:
        workers = self._controller.ordered()
        pressures = pressures_by_model(session.stats.pressures for session in self._routers.all() if session.joined)
        return tuple(
            Pool(
                name=name,
                model=pool.model,
                engine=pool.engine,
                desired=self._pools.replicas(name),
                ready=sum(worker.pool == name and worker.phase is WorkerPhase.READY for worker in workers),
                observed=sum(worker.pool == name and worker.has_process for worker in workers),
                source=pool.source,
                price_per_hour=pool.price_per_hour,
                band=pressure.band,
                saturation=pressure.saturation,
                sample_age_s=pressure.sample_age_s,
                queued=pressure.queued,
            )
            for name, pool in self._pools.settings.items()
            for pressure in (pressures.get(pool.model) or Pressure(pool.model),)
        )

    def _gateway_views(self, now: float) -> tuple[GatewayView, ...]:
        """The gateways that are run here, and any other that has joined."""
        own = {gateway.id: gateway for gateway in self._gateways.all()}
        views = [
            _gateway_view(gateway.id, gateway.pid, gateway.url, self._routers.get(gateway.id), now)
            for gateway in own.values()
        ]
        views += [
            _gateway_view(session.identity.id, session.identity.pid, session.identity.url, session, now)
            for session in self._routers.all()
            if session.identity.id not in own and session.joined and not session.is_router
        ]
        return tuple(views)

    def _router_views(self, now: float) -> tuple[RouterView, ...]:
        """The routers that are run here, and any other that has joined."""
        own = {member.id: member for member in self._router_processes.all()}
        views = [
            _router_view(member.id, member.pid, member.url, self._routers.get(member.id), now)
            for member in own.values()
        ]
        views += [
            _router_view(session.identity.id, session.identity.pid, session.identity.url, session, now)
            for session in self._routers.all()
            if session.identity.id not in own and session.joined and session.is_router
        ]
        return tuple(views)


def _gateway_view(gateway_id: str, pid: int, url: str, session: Session | None, now: float) -> GatewayView:
    if session is None:
        return GatewayView(gateway_id, pid, url, ready=False)
    stats = session.stats
    return GatewayView(
        id=gateway_id,
        pid=pid,
        url=url or session.identity.url,
        ready=session.joined and stats.ready and not session.lost,
        started_unix=session.identity.started_unix,
        report_unix=session.report_unix,
        in_flight=stats.in_flight,
        queued=stats.queued,
        requests_total=stats.requests_total,
        responses=stats.responses,
        latency=session.latency(now),
        tokens_per_s=session.tokens_per_s(),
        rss_bytes=stats.rss_bytes,
        cpu_s=stats.cpu_s,
        reserved_tokens=stats.reserved_tokens,
        limit_store=stats.limit_store,
        lost=session.lost,
    )


def _router_view(router_id: str, pid: int, address: str, session: Session | None, now: float) -> RouterView:
    if session is None:
        return RouterView(router_id, pid, address, ready=False)
    stats = session.stats
    return RouterView(
        id=router_id,
        pid=pid,
        address=address or session.identity.url,
        ready=session.joined and stats.ready and not session.lost,
        started_unix=session.identity.started_unix,
        report_unix=session.report_unix,
        in_flight=stats.in_flight,
        queued=stats.queued,
        requests_total=stats.requests_total,
        latency=session.latency(now),
        tokens_per_s=session.tokens_per_s(),
        rss_bytes=stats.rss_bytes,
        cpu_s=stats.cpu_s,
        draining=stats.draining,
        lost=session.lost,
    )
