"""A router's process: the same router that a gateway can have inside, behind a gRPC server that gateways share."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
from pathlib import Path
from typing import Final

import uvloop
from prometheus_client import REGISTRY

from control_plane import telemetry
from control_plane.contracts.addresses import reachable, wants_mutual_tls
from control_plane.contracts.errors import InferDeckError, SettingsError
from control_plane.contracts.fleet import GatewayIdentity, Member
from control_plane.contracts.gateway_record import END_NOW, FINISH, read_record, write_record
from control_plane.contracts.identity import Peer
from control_plane.contracts.worker_spec import WORKER_HOST
from control_plane.processes.complaint import exit_code, tell
from control_plane.processes.grace import SIGNAL_GRACE_S
from control_plane.processes.state_file import read_state
from control_plane.router.admission_figures import AdmissionFigures
from control_plane.router.embedded import EmbeddedRouter
from control_plane.router.figures import RouterFigures
from control_plane.router.metrics_server import MetricsServer
from control_plane.router.server import RouterServer
from control_plane.router.server_figures import ServerFigures
from control_plane.settings import Home, Settings
from control_plane.trust.keyring import Keyring

_REPLICA: Final = re.compile("r([1-9][0-9]{0,3})")

log = logging.getLogger("control_plane")


def run_router(home: Home, settings: Settings, router_id: str, port: int | None, *, record: bool = True) -> int:
    """``record``: leave one, for the control plane that looks after it."""
    telemetry.setup_logging("router", router=router_id, pid=os.getpid())
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_router(home, settings, router_id, port, home.router(router_id) if record else None))
    except InferDeckError as error:
        tell(error)
        # Last, because the end of its log is what the control plane tells of a router that ended.
        log.error(error.message, extra={"hint": error.hint})
        return exit_code(error)
    return 0


async def _router(home: Home, settings: Settings, router_id: str, port: int | None, record: Path | None) -> None:
    own = settings.router
    secure = wants_mutual_tls(settings.security.mutual_tls, own.host)
    credentials = _credentials(home, settings, router_id)
    server = RouterServer(router_id, credentials if secure else "")
    host, _, bound = server.bind(own.host, own.port if port is None else port).rpartition(":")
    address = f"{reachable(host)}:{bound}"
    router = EmbeddedRouter(
        router_id=router_id,
        identity=lambda: GatewayIdentity(
            router_id, os.getpid(), address, server.started_unix, Member.ROUTER, secure=secure
        ),
        fleet_address=lambda: read_state(home).get("api_address"),
        operator_key=lambda: home.operator_key.read_text().strip(),
        stats=server.stats,
        settings=own,
        credentials=credentials,
        fleet_secure=lambda: bool(read_state(home).get("api_secure")),
    )
    stop, now = asyncio.Event(), asyncio.Event()
    _stop_on_signals(stop, now)
    await router.start()
    figures = await _figures(settings, server, router, credentials if secure else "")
    await server.start(router)
    log.info("listening", extra={"address": address, "metrics": figures.url})
    if record is not None:
        write_record(record, os.getpid(), address, credentials if secure else "")
    try:
        await stop.wait()
        server.drain()
        ending = {asyncio.create_task(server.drained()), asyncio.create_task(now.wait())}
        await asyncio.wait(ending, return_when=asyncio.FIRST_COMPLETED)
        for task in ending:
            task.cancel()
    finally:
        await figures.stop()
        await server.stop()
        await router.close()
        if record is not None:
            _forget(record)


async def _figures(settings: Settings, server: RouterServer, router: EmbeddedRouter, credentials: str) -> MetricsServer:
    """A router whose figures nobody can read serves all the same."""
    REGISTRY.register(RouterFigures(router.dispatcher.placement.decisions))
    REGISTRY.register(AdmissionFigures(router.dispatcher))
    REGISTRY.register(ServerFigures(server.stats, lambda: server.gateways))
    figures = MetricsServer(REGISTRY, credentials)
    try:
        await figures.start(settings.router.host, _metrics_port(settings, server.router_id))
    except SettingsError as error:
        log.error(error.message, extra={"hint": error.hint})
    server.metrics_url = figures.url
    return figures


def _metrics_port(settings: Settings, router_id: str) -> int:
    """The n-th of the settings' routers has the n-th port; any other one takes what is free."""
    own, name = settings.router, _REPLICA.fullmatch(router_id)
    if not own.metrics_port or name is None or int(name[1]) > own.replicas:
        return 0
    return own.metrics_port + int(name[1]) - 1


def _credentials(home: Home, settings: Settings, router_id: str) -> str:
    """The file by which it proves who it is, made where anybody wants to see it: one that was started by hand has none
    yet."""
    keyring, mode = Keyring(home.tls), settings.security.mutual_tls
    wanted = any(wants_mutual_tls(mode, host) for host in (settings.router.host, settings.api.host, WORKER_HOST))
    return str(keyring.ensure_peer(Peer.ROUTER, router_id) if wanted else keyring.peer(Peer.ROUTER, router_id))


def _forget(record: Path) -> None:
    """The next one may have written its own by now."""
    if read_record(record).get("pid") == os.getpid():
        record.unlink(missing_ok=True)


def _stop_on_signals(stop: asyncio.Event, now: asyncio.Event) -> None:
    """``FINISH``: take nothing new, end when all calls have. SIGTERM: give them ``SIGNAL_GRACE_S``. ``END_NOW``, or
    again: end, and let gateways take to another router what still runs."""
    loop = asyncio.get_running_loop()

    def end() -> None:
        stop.set()
        now.set()

    def terminate() -> None:
        if stop.is_set():
            end()
        else:
            stop.set()
            loop.call_later(SIGNAL_GRACE_S, end)

    loop.add_signal_handler(FINISH, stop.set)
    loop.add_signal_handler(signal.SIGTERM, terminate)
    loop.add_signal_handler(END_NOW, end)
