"""The control plane's process: the store, the fleet and the operators' API."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import secrets
import signal
from pathlib import Path
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from control_plane import telemetry
from control_plane.api.auth import HOME, Access
from control_plane.api.server import ApiServer
from control_plane.contracts.access import Actor, KeySpec, Role
from control_plane.contracts.addresses import wants_mutual_tls
from control_plane.contracts.errors import Conflict, InferDeckError, StoreFull
from control_plane.contracts.identity import Peer
from control_plane.contracts.worker_spec import WORKER_HOST
from control_plane.fleet.launcher.local import LocalLauncher
from control_plane.fleet.platform import Platform
from control_plane.processes import settings_file
from control_plane.processes.complaint import exit_code, tell
from control_plane.processes.grace import SIGNAL_GRACE_S
from control_plane.processes.home_secret import HomeSecret
from control_plane.processes.ports import check_port
from control_plane.processes.state_file import StateFile, read_state
from control_plane.settings import Home, Settings
from control_plane.store import ApiKeys, Audit, Database, Operators, Policies
from control_plane.store.outage import is_full
from control_plane.store.secret import API_KEY_PREFIX, OPERATOR_KEY_PREFIX, new_key
from control_plane.trust.keyring import Keyring

log = logging.getLogger("control_plane")


def serve(home: Home, settings: Settings, parent_fd: int | None, told: dict[str, Any]) -> int:
    """``told`` are the settings with their sources, for whoever asks what this one runs with."""
    home.create()
    lock = _lock(home)
    try:
        for path in (home.log("control-plane"), home.database):
            path.touch(mode=0o600)
        telemetry.setup_logging("control-plane", path=home.log("control-plane"), pid=os.getpid())
        try:
            try:
                asyncio.run(_control_plane(home, settings, parent_fd, told))
            except (OSError, SQLAlchemyError) as error:
                if not is_full(error):
                    raise
                raise StoreFull(f"the disk of {home.root} is full", hint="make room on it, then inferdeck up") from None
        except InferDeckError as error:
            log.error(error.message, extra={"hint": error.hint})
            tell(error)
            return exit_code(error)
        home.settings.unlink(missing_ok=True)
    finally:
        os.close(lock)
    return 0


def _lock(home: Home) -> int:
    """One control plane per home: a lock on the folder itself, which leaves no file and ends with the process."""
    handle = os.open(home.root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        pid = read_state(home).get("pid", 0)
        who = f"process {pid}" if pid else "another process"
        raise Conflict(f"a control plane runs in {home.root} already: {who}", hint="inferdeck down") from None
    return handle


async def _control_plane(home: Home, settings: Settings, parent_fd: int | None, told: dict[str, Any]) -> None:
    database = Database.open(settings.store.url, home.database)
    try:
        access = Access(ApiKeys(database), Operators(database), Policies(database), Audit(database))
        _keep_first_key(access, _key(home.api_key, API_KEY_PREFIX))
        operator_key = _key(home.operator_key, OPERATOR_KEY_PREFIX)
        keyring = Keyring(home.tls)
        launcher = LocalLauncher(home.workers, home.logs, keyring=keyring)
        state = StateFile(home, settings)
        platform = Platform(
            settings, home, database, launcher, state.urls_changed, settings.path, _site(home, settings)
        )
        state.platform = platform
        api_credentials = await asyncio.to_thread(_credentials, keyring, settings)
        api = ApiServer(platform, operator_key, access, HomeSecret(home.api_key), api_credentials)
        check_port("api.port", settings.api.host, settings.api.port, settings)
        await platform.find()
        for gateway in platform.gateways.all():
            if not gateway.pid:
                check_port("gateway.port", settings.gateway.host, platform.gateways.port(gateway.id), settings)
        for router in platform.router_processes.all():
            if not router.pid:
                check_port("router.port", settings.router.host, platform.router_processes.port(router.id), settings)
        state.api_secure = bool(api_credentials)
        state.api_address = api.bind(settings.api.host, settings.api.port)
        # Not before: until here what runs in the home is another's, by other settings.
        try:
            settings_file.write(home, told)
        except OSError as error:
            # Nothing is decided by it.
            log.warning("the settings in force could not be written down", extra={"cause": error.strerror})
        state.write()
        try:
            await _live(platform, api, parent_fd)
        finally:
            home.state.unlink(missing_ok=True)
    finally:
        database.close()


def _credentials(keyring: Keyring, settings: Settings) -> str:
    """Make what is wanted before anyone looks for it. Returns the operators' API's own, empty where it needs none."""
    if settings.gateway.tls == "local":
        keyring.ensure_server(settings.gateway.host)
    mode, hosts = settings.security.mutual_tls, {settings.api.host, WORKER_HOST}
    if settings.router.replicas:
        hosts.add(settings.router.host)
    if not any(wants_mutual_tls(mode, host) for host in hosts):
        return ""
    own = keyring.ensure_peer(Peer.CONTROL_PLANE)
    keyring.ensure_peer(Peer.OPERATOR)
    for number in range(1, settings.gateway.replicas + 1):
        keyring.ensure_peer(Peer.GATEWAY, f"g{number}")
    for number in range(1, settings.router.replicas + 1):
        keyring.ensure_peer(Peer.ROUTER, f"r{number}")
    return str(own) if wants_mutual_tls(mode, settings.api.host) else ""


async def _live(platform: Platform, api: ApiServer, parent_fd: int | None) -> None:
    loop = asyncio.get_running_loop()
    told = 0

    def end() -> None:
        nonlocal told
        told += 1
        platform.request_shutdown(SIGNAL_GRACE_S if told == 1 else 0.0)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if parent_fd is not None:
        os.set_inheritable(parent_fd, False)

        def parent_said() -> None:
            if not os.read(parent_fd, 4096):
                loop.remove_reader(parent_fd)
                end()

        loop.add_reader(parent_fd, parent_said)
    platform.events.record("control_plane_started", "control-plane", f"started as {platform.id}, pid {os.getpid()}")
    platform.adopt()
    await api.start()
    platform.start()
    await platform.ended.wait()
    await api.stop()


def _keep_first_key(access: Access, key: str) -> None:
    """The home's API key is of the tier that is served first, until an operator decides otherwise."""
    tiers = access.policies.get().tiers
    tier = max(tiers, key=lambda name: tiers[name].priority)
    access.keys.add(key, KeySpec("default", tier=tier), Actor(HOME, HOME, Role.ADMIN, "first-start"))


def _site(home: Home, settings: Settings) -> str:
    """What tells this home's fleet from others that share its database; in the home's own there are none."""
    if not settings.store.url:
        return ""
    path = home.root / "site"
    if not path.exists():
        path.write_text(f"{secrets.token_hex(8)}\n")
    return path.read_text().strip()


def _key(path: Path, prefix: str) -> str:
    """The key in a file, made at the first start; only its owner may read it."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        path.chmod(0o600)
        key = path.read_text().strip()
        if not key:
            raise Conflict(f"{path} is empty", hint=f"rm {path}") from None
        return key
    with os.fdopen(handle, "w") as file:
        key = new_key(prefix)
        file.write(f"{key}\n")
    return key
