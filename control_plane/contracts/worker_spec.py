"""What the fleet tells a worker process at its start, and what the worker announces back; both are JSON files.

The spec is the worker's only configuration. The announcement is how a control plane finds a worker that it did not
start itself: it survives the control plane, and ``start_ticks`` (field 22 of ``/proc/PID/stat``) tells whether the pid
still means the same process.
"""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self, cast

WORKER_HOST: Final = "127.0.0.1"
"""Where workers of this machine listen."""


class _JsonFile:
    """Read and write a dataclass as a JSON file; a write is atomic and private to the user."""

    @classmethod
    def load(cls, path: Path) -> Self:
        values: dict[str, Any] = json.loads(path.read_text())
        return cls(**values)

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "w") as file:
                json.dump(dataclasses.asdict(cast(Any, self)), file, indent=1)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise


@dataclass(frozen=True, slots=True)
class WorkerSpec(_JsonFile):
    """How to run one worker.

    ``source`` is "builtin:smollm2-135m", a folder or a hub id. ``kv_bytes`` 0 leaves the size to the engine.
    ``gpus`` are device indexes; empty means the CPU. ``engine_args`` go to the engine unchanged. ``restarts``: how
    often it was started again after a failure, for the next control plane to know. ``kv_events``: whether the engine
    tells which blocks its prefix cache holds. ``credentials`` is the file by which the worker proves who it is, and
    checks who calls; empty means that anyone on this machine may call. ``written``: where its pool's settings stand,
    as FILE:LINE by their key, that of the pool itself by "".
    """

    worker_id: str
    pool: str
    engine: str
    model: str
    source: str
    announce_path: str
    log_path: str
    cache_dir: str
    host: str = WORKER_HOST
    port: int = 0
    revision: str = ""
    dtype: str = "auto"
    max_context: int = 0
    kv_bytes: int = 0
    tensor_parallel: int = 1
    gpus: list[int] = field(default_factory=list)
    threads: int = 0
    offline: bool = False
    engine_args: dict[str, Any] = field(default_factory=dict)
    restarts: int = 0
    kv_events: bool = False
    credentials: str = ""
    written: dict[str, str] = field(default_factory=dict)

    def place_of(self, key: str | None) -> str:
        """FILE:LINE of a pool's setting like ``engine_args.profile``, or of the closest thing around it; "" without a
        file."""
        parts = key.split(".") if key else []
        names = (".".join(parts[:length]) for length in range(len(parts), -1, -1))
        return next((self.written[name] for name in names if name in self.written), "")


@dataclass(frozen=True, slots=True)
class Announcement(_JsonFile):
    """Where a worker stands. ``phase``: loading, serving or failed; ``detail`` is for people. ``refuses_settings``: it
    failed for settings that can never work, so that another try ends the same."""

    worker_id: str
    instance_id: str
    pid: int
    start_ticks: int
    phase: str
    address: str = ""
    detail: str = ""
    progress: float = 0.0
    engine_pids: list[int] = field(default_factory=list)
    refuses_settings: bool = False


def start_ticks(pid: int) -> int:
    """When the process started, in clock ticks after boot; 0 if there is no such process, or only its zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    fields = stat[stat.rindex(")") + 2 :].split()
    return 0 if fields[0] in "ZX" else int(fields[19])


def alive(pid: int, ticks: int) -> bool:
    """Whether exactly this process runs: a pid that was given out again has another start."""
    return ticks != 0 and start_ticks(pid) == ticks
