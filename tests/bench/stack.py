"""The system under test: control plane, gateway and workers, each the real process, started as ``up`` does."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from control_plane.contracts.worker_spec import Announcement, start_ticks

ROOT = Path(__file__).resolve().parents[2]
MODEL = "scripted-model"
START_TIMEOUT_S = 90.0


@dataclass(frozen=True, slots=True)
class Stack:
    """Where the gateway is, who may call it, and whose CPU to count. ``trace`` is what the engines write."""

    home: Path
    host: str
    port: int
    key: str
    control_plane_pid: int
    gateway_pid: int
    worker_pids: tuple[int, ...]
    worker_addresses: tuple[str, ...]
    trace: Path
    tls: ssl.SSLContext | None = None
    """For connections to the gateway, where it is HTTPS."""
    router_pids: tuple[int, ...] = ()
    """Of routers that are processes of their own."""


@asynccontextmanager
async def running_stack(
    workers: int,
    *,
    config: str = "",
    secure: bool = False,
    routers: int = 0,
    start_timeout_s: float = START_TIMEOUT_S,
    **engine_args: Any,
) -> AsyncIterator[Stack]:
    """A stack with its own home and free ports; every process of it has ended afterwards.

    Without a ``config`` (TOML, with port 0 everywhere) its workers are scripted, with these arguments of their engine;
    ``secure`` then is HTTPS outside and mutual TLS inside, ``routers`` how many are processes of their own.
    """
    with tempfile.TemporaryDirectory(prefix="inferdeck-bench-") as folder:
        home = Path(folder)
        trace = home / "trace.jsonl"
        path = home / "config.toml"
        engine_args = {"trace_path": str(trace), **engine_args}
        path.write_text(config or _scripted_config(workers, engine_args, secure, routers))
        read_end, write_end = os.pipe()
        try:
            process = await _start(home, path, read_end)
            try:
                yield await _serving(process, home, workers, trace, time.monotonic() + start_timeout_s)
            finally:
                await _end(process, home)
        finally:
            os.close(read_end)
            os.close(write_end)


def _scripted_config(workers: int, engine_args: dict[str, Any], secure: bool, routers: int = 0) -> str:
    lines = ["[gateway]", "port = 0", *(['tls = "local"', "[security]", "mutual_tls = true"] if secure else [])]
    lines += ["[router]", f"replicas = {routers}"] if routers else []
    lines += ["[api]", "port = 0", "[[pool]]", 'name = "bench"', f'model = "{MODEL}"']
    lines += ['engine = "scripted"', f"replicas = {workers}", "[pool.engine_args]"]
    lines += [f"{name} = {json.dumps(value)}" for name, value in engine_args.items()]
    return "\n".join(lines) + "\n"


async def _start(home: Path, config: Path, parent_fd: int) -> asyncio.subprocess.Process:
    """The control plane; it ends by itself when the other end of ``parent_fd`` closes, so also if this process dies."""
    arguments = ["-m", "control_plane", "serve", "--home", str(home), "--config", str(config)]
    arguments += ["--parent-fd", str(parent_fd)]
    with _open(home / "serve.out") as out:
        return await asyncio.create_subprocess_exec(
            sys.executable, *arguments, stdout=out, stderr=out, cwd=ROOT, pass_fds=(parent_fd,)
        )


def _open(path: Path) -> BinaryIO:
    return open(path, "wb")


async def _serving(
    process: asyncio.subprocess.Process, home: Path, workers: int, trace: Path, deadline: float
) -> Stack:
    while time.monotonic() < deadline and process.returncode is None:
        announced = [item for item in _announcements(home) if item.phase == "serving"]
        gateways = [json.loads(path.read_text()) for path in (home / "run" / "gateways").glob("*.json")]
        if len(announced) == workers and gateways and (home / "state.json").exists():
            url = urlsplit(gateways[0]["url"])
            tls = ssl.create_default_context(cafile=str(home / "tls" / "ca.pem")) if url.scheme == "https" else None
            if url.hostname and url.port and await _ready(url.hostname, url.port, tls):
                return Stack(
                    home=home,
                    host=url.hostname,
                    port=url.port,
                    key=(home / "api.key").read_text().strip(),
                    control_plane_pid=process.pid,
                    gateway_pid=gateways[0]["pid"],
                    worker_pids=tuple(item.pid for item in announced),
                    worker_addresses=tuple(item.address for item in announced),
                    trace=trace,
                    tls=tls,
                    router_pids=tuple(json.loads(path.read_text())["pid"] for path in _routers(home)),
                )
        await asyncio.sleep(0.1)
    raise RuntimeError(f"the stack did not come up: {(home / 'serve.out').read_text()[-4000:]}")


def _routers(home: Path) -> list[Path]:
    return sorted((home / "run" / "routers").glob("*.json"))


def _announcements(home: Path) -> list[Announcement]:
    paths = (home / "run" / "workers").glob("*.json")
    return [Announcement.load(path) for path in paths if not path.name.endswith(".spec.json")]


async def _ready(host: str, port: int, tls: ssl.SSLContext | None) -> bool:
    try:
        reader, writer = await asyncio.open_connection(host, port, ssl=tls)
    except OSError:
        return False
    try:
        writer.write(f"GET /ready HTTP/1.1\r\nhost: {host}:{port}\r\nconnection: close\r\n\r\n".encode())
        return b" 200 " in await reader.readline()
    finally:
        writer.close()


async def _end(process: asyncio.subprocess.Process, home: Path) -> None:
    """SIGTERM to the control plane, which ends everything; what it leaves is ended by pid, and said."""
    started = {item.pid: item.start_ticks for item in _announcements(home)}
    if process.returncode is None:
        process.terminate()
        try:
            async with asyncio.timeout(30):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
    for pid, ticks in started.items():
        if ticks and start_ticks(pid) == ticks:
            print(f"worker {pid} outlived the control plane; killed", file=sys.stderr)
            os.kill(pid, signal.SIGKILL)
