"""``python -m control_plane serve|gateway|settings``: the processes that ``inferdeck`` starts.

Exit codes: 0 ended as asked, 1 could not run, 2 a setting or an argument is wrong. Whatever is wrong is told on stderr
as ``error: …`` and ``hint: …``, and in the log.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import errno
import fcntl
import json
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import psutil
import uvloop

from control_plane import telemetry
from control_plane.api.server import ApiServer
from control_plane.contracts.errors import Conflict, InferDeckError, SettingsError
from control_plane.contracts.fleet import GatewayIdentity
from control_plane.contracts.worker_spec import start_ticks
from control_plane.fleet.gateways import END_NOW, FINISH, read_record, write_record
from control_plane.fleet.launcher.local import LocalLauncher
from control_plane.fleet.platform import Platform
from control_plane.fleet.snapshots import package_version
from control_plane.gateway.options import GatewayOptions
from control_plane.gateway.server import Gateway
from control_plane.router.embedded import EmbeddedRouter
from control_plane.settings import Home, Settings, load_settings, load_with_sources
from control_plane.store import ApiKeys, Database
from control_plane.store.keys import API_KEY_PREFIX, OPERATOR_KEY_PREFIX, new_key

SIGNAL_GRACE_S: Final = 5.0
"""How long requests may go on after SIGTERM, and after the process that holds the other end of --parent-fd is gone."""

_NO_LIMIT_S: Final = 86_400.0

log = logging.getLogger("control_plane")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m control_plane", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", help="run the control plane, which runs everything else")
    gateway = commands.add_parser("gateway", help="run one gateway with its router")
    settings = commands.add_parser("settings", help="print the settings and who chose them")
    for command in (serve, gateway, settings):
        command.add_argument("--home", type=Path, help="folder of state, logs and keys")
        command.add_argument("--config", type=Path, help="TOML file; else config.toml in the home")
    serve.add_argument("--parent-fd", type=int, help="a pipe's read end: when it closes, everything is shut down")
    gateway.add_argument("--id", required=True)
    gateway.add_argument("--port", type=int, help="instead of the settings'; 0 is any free one")
    gateway.add_argument("--rather", type=int, default=0, help="the port to take where any will do and it is free")
    settings.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    home = Home.resolve(options.home)
    if options.config is not None:
        options.config = options.config.absolute()
    try:
        if options.command == "settings":
            return _print_settings(home, options.config, as_json=options.json)
        config = load_settings(options.config, home)
        if options.command == "serve":
            return _serve(home, config, options.parent_fd)
        return _run_gateway(home, config, options)
    except InferDeckError as error:
        _tell(error)
        return 2 if isinstance(error, SettingsError) else 1


def _tell(error: InferDeckError) -> None:
    for line in str(error.message).splitlines():
        print(f"error: {line}", file=sys.stderr)
    if error.hint:
        print(f"hint: {error.hint}", file=sys.stderr)


def _print_settings(home: Home, config: Path | None, *, as_json: bool) -> int:
    settings, sources = load_with_sources(config, home)
    rows = [dataclasses.asdict(source) for source in sources]
    for row in rows:
        if isinstance(row["value"], str):
            row["value"] = telemetry.redact(row["value"])
    if as_json:
        print(json.dumps({"config": str(settings.path) if settings.path else None, "settings": rows}, indent=1))
        return 0
    for row in rows:
        print(f"{row['key']} = {json.dumps(row['value'])}  # {row['source']}")
    return 0


# --- serve


def _serve(home: Home, settings: Settings, parent_fd: int | None) -> int:
    home.create()
    lock = _lock(home)
    try:
        for path in (home.log("control-plane"), home.database):
            path.touch(mode=0o600)
        telemetry.setup_logging("control-plane", path=home.log("control-plane"), pid=os.getpid())
        try:
            asyncio.run(_control_plane(home, settings, parent_fd))
        except InferDeckError as error:
            log.error(error.message, extra={"hint": error.hint})
            _tell(error)
            return 2 if isinstance(error, SettingsError) else 1
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
        pid = _read_state(home).get("pid", 0)
        who = f"process {pid}" if pid else "another process"
        raise Conflict(f"a control plane runs in {home.root} already: {who}", hint="inferdeck down") from None
    return handle


async def _control_plane(home: Home, settings: Settings, parent_fd: int | None) -> None:
    database = Database.open(settings.store.url, home.database)
    try:
        keys = ApiKeys(database)
        keys.add(_key(home.api_key, API_KEY_PREFIX), "default")
        operator_key = _key(home.operator_key, OPERATOR_KEY_PREFIX)
        launcher = LocalLauncher(home.workers, home.logs)
        state = _State(home, settings)
        platform = Platform(settings, home, database, launcher, state.urls_changed, settings.path)
        state.platform = platform
        api = ApiServer(platform, operator_key, keys)
        _check_port("api.port", settings.api.host, settings.api.port, settings)
        await platform.gateways.find()
        for gateway in platform.gateways.all():
            if not gateway.pid:
                _check_port("gateway.port", settings.gateway.host, platform.gateways.port(gateway.id), settings)
        state.api_address = api.bind(settings.api.host, settings.api.port)
        state.write()
        try:
            await _live(platform, api, parent_fd)
        finally:
            home.state.unlink(missing_ok=True)
    finally:
        database.close()


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


class _State:
    """``state.json``: how others find this control plane. Written anew whenever a gateway listens."""

    def __init__(self, home: Home, settings: Settings) -> None:
        self.api_address = ""
        self.platform: Platform | None = None
        self._home = home
        self._settings = settings
        self._started_unix = time.time()

    def urls_changed(self) -> None:
        if self.api_address:
            self.write()

    def write(self) -> None:
        assert self.platform is not None
        host, _, port = self.api_address.rpartition(":")
        values = {
            "pid": os.getpid(),
            "start_ticks": start_ticks(os.getpid()),
            "control_plane_id": self.platform.id,
            "api_address": f"{_reachable(host)}:{port}",
            "gateway_urls": [url.replace("//0.0.0.0:", "//127.0.0.1:") for url in self.platform.gateways.urls()],
            "api_key_path": str(self._home.api_key),
            "operator_key_path": str(self._home.operator_key),
            "config": str(self._settings.path or ""),
            "version": package_version(),
            "started_unix": self._started_unix,
            "log_path": str(self._home.log("control-plane")),
        }
        draft = self._home.state.with_name(f".state.json.{os.getpid()}")
        draft.write_text(json.dumps(values, indent=1))
        draft.chmod(0o600)
        draft.replace(self._home.state)


def _reachable(host: str) -> str:
    return {"0.0.0.0": "127.0.0.1", "[::]": "[::1]", "::": "[::1]"}.get(host, host)


def _read_state(home: Home) -> dict[str, Any]:
    try:
        values = json.loads(home.state.read_text())
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


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


def _check_port(setting: str, host: str, port: int, settings: Settings) -> None:
    """Raise Conflict, which says who has the port, where it cannot be listened on."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen(1)
    except OSError as error:
        section = setting.partition(".")[0]
        file = settings.path or "the config file"
        if error.errno == errno.EADDRINUSE:
            raise Conflict(
                f"{setting} {port} on {host} is taken{_holder(port)}",
                param=setting,
                hint=f"set port in [{section}] of {file} to another one, or to 0 for any free one",
            ) from None
        raise Conflict(
            f"cannot listen on {host}:{port} ({setting}): {error.strerror or error}",
            param=setting,
            hint=f"set host and port in [{section}] of {file}",
        ) from None


def _holder(port: int) -> str:
    try:
        for connection in psutil.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port and connection.pid:
                return f" by process {connection.pid} ({psutil.Process(connection.pid).name()})"
    except psutil.Error:
        pass
    return ""


# --- gateway


def _run_gateway(home: Home, settings: Settings, options: argparse.Namespace) -> int:
    telemetry.setup_logging("gateway", gateway=options.id, pid=os.getpid())
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_gateway(home, settings, options.id, options.port, options.rather))
    except InferDeckError as error:
        _tell(error)
        # Last, because the end of its log is what the control plane tells of a gateway that ended.
        log.error(error.message, extra={"hint": error.hint})
        return 2 if isinstance(error, SettingsError) else 1
    return 0


async def _gateway(home: Home, settings: Settings, gateway_id: str, port: int | None, rather: int) -> None:
    database = Database.open(settings.store.url, home.database, migrate=False)
    try:
        gateway = _bind(settings, ApiKeys(database), settings.gateway.port if port is None else port, rather)
        router = EmbeddedRouter(
            router_id=gateway_id,
            identity=lambda: GatewayIdentity(gateway_id, os.getpid(), gateway.url, gateway.started_unix),
            fleet_address=lambda: _read_state(home).get("api_address"),
            operator_key=lambda: home.operator_key.read_text().strip(),
            stats=gateway.stats,
            settings=settings.router,
        )
        stop = asyncio.Event()
        _stop_on_signals(stop, router)
        await router.start()
        record = home.gateway(gateway_id)
        write_record(record, os.getpid(), gateway.url)
        try:
            await gateway.serve(router, stop, grace_s=_NO_LIMIT_S)
        finally:
            await router.close()
            if read_record(record).get("pid") == os.getpid():
                record.unlink(missing_ok=True)
    finally:
        database.close()


def _bind(settings: Settings, keys: ApiKeys, port: int, rather: int) -> Gateway:
    def options(port: int) -> GatewayOptions:
        return GatewayOptions(host=settings.gateway.host, port=port, wait_s=settings.router.queue_timeout_s)

    if not port and rather:
        try:
            return Gateway(options(rather), keys)
        except SettingsError:
            log.info("the last port is taken, another will do", extra={"port": rather})
    return Gateway(options(port), keys)


def _stop_on_signals(stop: asyncio.Event, router: EmbeddedRouter) -> None:
    """``FINISH``: end when all calls have. SIGTERM: give them ``SIGNAL_GRACE_S``. ``END_NOW``, or again: end them."""
    loop = asyncio.get_running_loop()
    closing: set[asyncio.Task[None]] = set()

    def end_calls() -> None:
        stop.set()
        closing.add(loop.create_task(router.close()))

    def terminate() -> None:
        if stop.is_set():
            end_calls()
        else:
            stop.set()
            loop.call_later(SIGNAL_GRACE_S, end_calls)

    loop.add_signal_handler(FINISH, stop.set)
    loop.add_signal_handler(signal.SIGTERM, terminate)
    loop.add_signal_handler(END_NOW, end_calls)


if __name__ == "__main__":
    sys.exit(main())
