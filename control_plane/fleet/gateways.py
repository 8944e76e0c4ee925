"""The gateway processes: started, found again, started again when they end, and stopped.

Like workers they lead sessions of their own, write their output to a log, and leave a record by which the next control
plane finds them. Unlike workers their number is a setting, and they tell how they are by joining.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from control_plane.contracts.gateway_record import END_NOW, FINISH, read_record, write_record
from control_plane.fleet.cause import cause_of
from control_plane.fleet.changes import Changes
from control_plane.fleet.events import Events
from control_plane.fleet.launcher.log_file import open_log
from control_plane.fleet.launcher.process import Process, boot_unix, kill_session
from control_plane.fleet.routers import Routers
from control_plane.fleet.state import STABLE_S, backoff_s
from control_plane.settings import GatewaySettings, Home
from control_plane.tasks import Tasks

POLL_S: Final = 0.05
LAST_WORDS_S: Final = 5.0

TERM_S: Final = 8.0
"""After SIGTERM a gateway lets its calls go on for five seconds."""

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class GatewayProcess:
    """One gateway. ``url`` is where it listens, the last one while it is being started again."""

    id: str
    url: str = ""
    process: Process | None = None
    failures: int = 0
    reason: str = ""
    adopted: bool = False

    @property
    def pid(self) -> int:
        return self.process.pid if self.process is not None and not self.process.ended else 0


class Gateways:
    """``urls_changed`` is called when a gateway listens, perhaps somewhere else than before."""

    def __init__(
        self,
        settings: GatewaySettings,
        home: Home,
        config: Path | None,
        events: Events,
        routers: Routers,
        changes: Changes,
        urls_changed: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._home = home
        self._config = config
        self._events = events
        self._routers = routers
        self._changes = changes
        self._urls_changed = urls_changed
        self._gateways = {f"g{n}": GatewayProcess(f"g{n}") for n in range(1, settings.replicas + 1)}
        self._tasks = Tasks()
        self._stopping = False

    def all(self) -> tuple[GatewayProcess, ...]:
        return tuple(self._gateways.values())

    def urls(self) -> list[str]:
        return [gateway.url for gateway in self._gateways.values() if gateway.url]

    async def find(self) -> None:
        """Look for gateways of an earlier control plane: take over the wanted ones, end the others. Once, first."""
        unwanted: list[Process] = []
        for path in sorted(self._home.gateways.glob("*.json")):
            record = read_record(path)
            process = self._attach(path, record)
            gateway = self._gateways.get(path.stem)
            if gateway is not None:
                gateway.url = str(record.get("url", ""))
                same = str(record.get("certificate", "")) == self._settings.tls_cert
                if process is not None and same and self._listens_right(gateway):
                    gateway.process, gateway.adopted = process, True
                    self._events.record("gateway_adopted", f"gateway/{gateway.id}", f"pid {process.pid} runs on")
                    continue
            if process is not None:
                unwanted.append(process)
                self._events.record("gateway_stopped", f"gateway/{path.stem}", "it is not what the settings say now")
            if gateway is None:
                path.unlink(missing_ok=True)
        await _end(unwanted, signal.SIGTERM, TERM_S)
        await _end(unwanted, signal.SIGKILL, LAST_WORDS_S)

    def start(self) -> None:
        for gateway in self._gateways.values():
            self._tasks.keep(functools.partial(self._supervise, gateway), f"gateway {gateway.id}")

    def port(self, gateway_id: str) -> int:
        """The port that settings give a gateway; 0 is any."""
        port = self._settings.port
        return port + int(gateway_id.removeprefix("g")) - 1 if port else 0

    async def stop(self, grace_s: float, hurry: asyncio.Event) -> None:
        """Stop them all: no new connections at once; what runs may go on for the grace, in seconds, or until told to
        hurry."""
        self._stopping = True
        await self._tasks.cancel()
        running = [gateway.process for gateway in self.all() if gateway.process is not None]
        if grace_s > 0:
            hurried = asyncio.create_task(hurry.wait())
            await _end(running, FINISH, grace_s, hurried)
            hurried.cancel()
        await _end(running, END_NOW, LAST_WORDS_S)
        await _end(running, signal.SIGKILL, LAST_WORDS_S)
        for gateway in self.all():
            if gateway.process is not None:
                kill_session(gateway.process.pid, gateway.process.ticks)
            self._home.gateway(gateway.id).unlink(missing_ok=True)

    async def _supervise(self, gateway: GatewayProcess) -> None:
        while not self._stopping:
            if gateway.process is None or gateway.process.ended:
                try:
                    gateway.process = self._spawn(gateway)
                except OSError as error:
                    gateway.process = None
                    gateway.failures += 1
                    gateway.reason = f"cannot be started: {error}"
            if gateway.process is not None:
                await self._until_end(gateway, gateway.process)
            delay = backoff_s(gateway.failures)
            message = f"{gateway.reason}; starts again in {delay:.1f} s"
            self._events.record("gateway_failed", f"gateway/{gateway.id}", message, "error")
            await asyncio.sleep(delay)

    async def _until_end(self, gateway: GatewayProcess, process: Process) -> None:
        began = asyncio.get_running_loop().time()
        watching = self._tasks.keep(functools.partial(self._watch_url, gateway, process), f"address of {gateway.id}")
        try:
            await process.wait()
        finally:
            watching.cancel()
        served = asyncio.get_running_loop().time() - began >= STABLE_S
        gateway.failures = 1 if served else gateway.failures + 1
        gateway.reason = cause_of(process.exit, None, self._home.log(f"gateway-{gateway.id}"))
        kill_session(process.pid, process.ticks)
        if lost := self._routers.lost(gateway.id):
            gateway.reason += f"; {lost} requests ended with it"
        self._changes.bump()

    async def _watch_url(self, gateway: GatewayProcess, process: Process) -> None:
        """Until it says where it listens."""
        while True:
            record = read_record(self._home.gateway(gateway.id))
            if record.get("pid") == process.pid and (url := str(record.get("url", ""))):
                gateway.url = url
                if not gateway.adopted:
                    self._events.record("gateway_started", f"gateway/{gateway.id}", f"listens on {url}")
                gateway.adopted = False
                self._urls_changed()
                self._changes.bump()
                return
            await asyncio.sleep(POLL_S)

    def _spawn(self, gateway: GatewayProcess) -> Process:
        log_path = self._home.log(f"gateway-{gateway.id}")
        command = [sys.executable, "-m", "control_plane", "gateway", "--home", str(self._home.root)]
        command += ["--id", gateway.id, "--port", str(self.port(gateway.id))]
        if not self.port(gateway.id) and gateway.url:
            command += ["--rather", str(urlsplit(gateway.url).port or 0)]
        if self._config is not None:
            command += ["--config", str(self._config)]
        with open_log(log_path) as output:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        try:
            write_record(self._home.gateway(gateway.id), child.pid, "")
            process = Process.of_child(child)
        except BaseException:
            # Nobody would look after it, nor find it again.
            child.kill()
            child.wait()
            raise
        log.info("gateway process made", extra={"gateway": gateway.id, "gateway_pid": child.pid})
        return process

    def _attach(self, path: Path, record: dict[str, Any]) -> Process | None:
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < boot_unix():
                return None
        return Process.attach(int(record.get("pid", 0)), int(record.get("start_ticks", 0)))

    def _listens_right(self, gateway: GatewayProcess) -> bool:
        """Whether it is where the settings have it now."""
        if not gateway.url:
            return True
        where = urlsplit(gateway.url)
        secure = where.scheme == ("https" if self._settings.https else "http")
        return secure and where.hostname == self._settings.host and self.port(gateway.id) in (0, where.port)


async def _end(
    processes: list[Process], number: signal.Signals, patience_s: float, unless: asyncio.Task[Any] | None = None
) -> None:
    """Signal those that still run, and wait for their end, the end of patience, or of ``unless``."""
    left = [process for process in processes if not process.ended]
    for process in left:
        process.send(number)
    if left:
        ending = asyncio.gather(*(process.wait() for process in left))
        await asyncio.wait({ending, *([unless] if unless else [])}, timeout=patience_s, return_when="FIRST_COMPLETED")
        ending.cancel()
        await asyncio.gather(ending, return_exceptions=True)
