"""A gateway's process: the HTTP server with its router inside, or with its streams to routers."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import uvloop
from prometheus_client import REGISTRY

from control_plane import telemetry
from control_plane.contracts.errors import InferDeckError, SettingsError
from control_plane.contracts.fleet import GatewayIdentity, Member
from control_plane.contracts.gateway_record import END_NOW, FINISH, read_record, write_record
from control_plane.contracts.identity import Peer
from control_plane.gateway.history.history import History
from control_plane.gateway.options import GatewayOptions
from control_plane.gateway.server import Gateway
from control_plane.processes.complaint import exit_code, tell
from control_plane.processes.grace import SIGNAL_GRACE_S
from control_plane.processes.state_file import read_state
from control_plane.router.admission_figures import AdmissionFigures
from control_plane.router.embedded import EmbeddedRouter
from control_plane.router.figures import RouterFigures
from control_plane.router.remote import RemoteRouter
from control_plane.settings import Home, Settings
from control_plane.store import ApiKeys, Database, Turns
from control_plane.store.journal import Journal
from control_plane.store.patience import Patience
from control_plane.store.sweep import sweep
from control_plane.trust.keyring import Keyring

_NO_LIMIT_S: Final = 86_400.0

log = logging.getLogger("control_plane")


def run_gateway(home: Home, settings: Settings, gateway_id: str, port: int | None, rather: int) -> int:
    telemetry.setup_logging("gateway", gateway=gateway_id, pid=os.getpid())
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_gateway(home, settings, gateway_id, port, rather))
    except InferDeckError as error:
        tell(error)
        # Last, because the end of its log is what the control plane tells of a gateway that ended.
        log.error(error.message, extra={"hint": error.hint})
        return exit_code(error)
    return 0


async def _gateway(home: Home, settings: Settings, gateway_id: str, port: int | None, rather: int) -> None:
    database = Database.open(settings.store.url, home.database, migrate=False, durable=True)
    patience = Patience()
    try:
        history = History(database, Journal.open(home.journals, gateway_id))
        port = settings.gateway.port if port is None else port
        gateway = _bind(home, settings, ApiKeys(database), history, port, rather)
        # What an earlier one was cut off from, beside serving: the database may be slow to answer.
        threading.Thread(
            target=sweep, args=(home.journals, Turns(database), patience), name="sweep", daemon=True
        ).start()
        router = _router(home, settings, gateway_id, gateway)
        stop = asyncio.Event()
        _stop_on_signals(stop, router)
        await router.start()
        record = home.gateway(gateway_id)
        fronts = settings.router.replicas > 0
        write_record(record, os.getpid(), gateway.url, settings.gateway.tls_cert, fronts=fronts)
        try:
            await gateway.serve(router, stop, grace_s=_NO_LIMIT_S)
        finally:
            await router.close()
            if read_record(record).get("pid") == os.getpid():
                record.unlink(missing_ok=True)
    finally:
        patience.hurry()
        database.close()


def _router(home: Home, settings: Settings, gateway_id: str, gateway: Gateway) -> EmbeddedRouter | RemoteRouter:
    """One inside, or the way to those that are processes of their own."""

    def identity(kind: Member) -> Callable[[], GatewayIdentity]:
        return lambda: GatewayIdentity(gateway_id, os.getpid(), gateway.url, gateway.started_unix, kind)

    credentials = str(Keyring(home.tls).peer(Peer.GATEWAY, gateway_id))
    if settings.router.replicas:
        return RemoteRouter(
            gateway_id=gateway_id,
            identity=identity(Member.FRONT),
            fleet_address=lambda: read_state(home).get("api_address"),
            operator_key=lambda: home.operator_key.read_text().strip(),
            stats=gateway.stats,
            settings=settings.router,
            credentials=credentials,
            fleet_secure=lambda: bool(read_state(home).get("api_secure")),
        )
    router = EmbeddedRouter(
        router_id=gateway_id,
        identity=identity(Member.GATEWAY),
        fleet_address=lambda: read_state(home).get("api_address"),
        operator_key=lambda: home.operator_key.read_text().strip(),
        stats=gateway.stats,
        settings=settings.router,
        credentials=credentials,
        fleet_secure=lambda: bool(read_state(home).get("api_secure")),
    )
    REGISTRY.register(RouterFigures(router.dispatcher.placement.decisions))
    REGISTRY.register(AdmissionFigures(router.dispatcher))
    return router


def _bind(home: Home, settings: Settings, keys: ApiKeys, history: History, port: int, rather: int) -> Gateway:
    own = settings.gateway
    certificate: Path | None = None
    key: Path | None = None
    if own.tls == "local":
        certificate = key = Keyring(home.tls).server
    elif own.tls_cert:
        certificate, key = Path(own.tls_cert), Path(own.tls_key)

    def options(port: int) -> GatewayOptions:
        return GatewayOptions(
            host=own.host,
            port=port,
            certificate=certificate,
            key=key,
            cors_origins=own.cors_origins,
            wait_s=settings.router.queue_timeout_s,
            limit_store=settings.limits.url,
            limit_gateways=own.replicas,
        )

    if not port and rather:
        try:
            return Gateway(options(rather), keys, history=history)
        except SettingsError:
            log.info("the last port is taken, another will do", extra={"port": rather})
    return Gateway(options(port), keys, history=history)


def _stop_on_signals(stop: asyncio.Event, router: EmbeddedRouter | RemoteRouter) -> None:
    """``FINISH``: end when all calls have. SIGTERM: give them ``SIGNAL_GRACE_S``. ``END_NOW``, or again: end them."""
    loop = asyncio.get_running_loop()
    closing: set[asyncio.Task[None]] = set()

    def closed(task: asyncio.Task[None]) -> None:
        closing.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("the router did not close", exc_info=error)

    def end_calls() -> None:
        stop.set()
        task = loop.create_task(router.close())
        closing.add(task)
        task.add_done_callback(closed)

    def terminate() -> None:
        if stop.is_set():
            end_calls()
        else:
            stop.set()
            loop.call_later(SIGNAL_GRACE_S, end_calls)

    loop.add_signal_handler(FINISH, stop.set)
    loop.add_signal_handler(signal.SIGTERM, terminate)
    loop.add_signal_handler(END_NOW, end_calls)
