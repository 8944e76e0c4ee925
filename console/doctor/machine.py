"""Cores, memory, disk, limits and ports."""

from __future__ import annotations

import errno
import os
import platform
import resource
import shutil
import socket
from pathlib import Path
from typing import Any

from console import figures
from console.doctor.finding import Finding, fail, ok, warn
from console.home import shown_path

GIB = 1 << 30
OWN_BYTES = GIB
"""What a small CPU worker takes besides its KV cache; measured with SmolLM2-135M: 0.7 GiB of its own."""

LOW_DISK, FULL_DISK = 2 * GIB, GIB // 2
LOW_FILES = 1024


def cores() -> Finding:
    number = len(os.sched_getaffinity(0))
    text = f"{platform.system()} {platform.release()}, {platform.machine()}, {figures.plural(number, 'core')}"
    if platform.system() != "Linux":
        return fail("machine", text, "workers run on Linux only")
    try:
        flags = Path("/proc/cpuinfo").read_text().split("flags", 1)[1].split("\n", 1)[0].split()
    except (OSError, IndexError):
        return ok("machine", text)
    vectors = [name for name in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if name in flags]
    if platform.machine() == "x86_64" and "avx2" not in vectors:
        return warn("machine", f"{text}, no AVX2", "vLLM on the CPU needs AVX2 or AVX-512")
    return ok("machine", ", ".join([text, *vectors]))


def memory(pools: list[dict[str, Any]]) -> Finding:
    """Available memory against what the CPU workers of the settings take."""
    available = _available()
    if available is None:
        return warn("memory", "how much is available cannot be read", "check free -h")
    on_cpu = [pool for pool in pools if pool.get("engine") == "vllm" and not pool.get("gpus")]
    wanted = sum(int(pool.get("replicas", 0)) * (int(pool.get("kv_memory", 0)) + OWN_BYTES) for pool in on_cpu)
    text = f"{figures.size(available)} available"
    if not wanted:
        return ok("memory", text)
    text += (
        f", about {figures.size(wanted)} wanted by {sum(int(pool.get('replicas', 0)) for pool in on_cpu)} CPU workers"
    )
    if available < wanted:
        return warn("memory", text, "fewer replicas, or a smaller kv_memory")
    return ok("memory", text)


def _available() -> int | None:
    """Bytes that new processes can get: what the kernel says, and no more than the cgroup has left."""
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        available = int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError, IndexError):
        return None
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
        return min(available, int(limit) - used) if limit != "max" else available
    except (OSError, ValueError):
        return available


def disk(name: str, folder: Path) -> Finding:
    """Room where a folder is, or would be made."""
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    try:
        free = shutil.disk_usage(there).free
    except OSError as error:
        return fail(name, f"{shown_path(folder)}: {error.strerror}", "choose another folder")
    text = f"{figures.size(free)} free at {shown_path(folder)}"
    if free < FULL_DISK:
        return fail(name, text, "make room, or choose another folder")
    return warn(name, text, "make room: logs and models grow") if free < LOW_DISK else ok(name, text)


def open_files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < LOW_FILES:
        return warn("open files", f"at most {soft}", f"ulimit -n {min(hard, 65536) if hard > 0 else 65536}")
    return ok("open files", f"at most {soft:,}")


def port(name: str, host: str, number: int, *, ours: set[int]) -> Finding:
    """Whether a port that is to be listened on is free; ``ours`` are those of the platform that runs."""
    if number == 0:
        return ok(f"{name} port", "any free one")
    if number in ours:
        return ok(f"{name} port", f"{host}:{number}, listened on by this platform")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, number))
        except OSError as error:
            what = "is taken" + _holder(number) if error.errno == errno.EADDRINUSE else os.strerror(error.errno or 0)
            return fail(
                f"{name} port",
                f"{host}:{number} {what}",
                f"set port in [{name}] to another one, or to 0 for any free one",
            )
    return ok(f"{name} port", f"{host}:{number} is free")


def _holder(number: int) -> str:
    import psutil

    try:
        for connection in psutil.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr.port == number and connection.pid:
                return f" by process {connection.pid} ({psutil.Process(connection.pid).name()})"
    except psutil.Error:
        pass
    return ""
