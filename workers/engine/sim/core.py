"""The modules of the simulator that may be compiled, and where a compiled form of just these sources lies.

``.ci/compile_core.py`` makes one with mypyc, from the same files. It is in a folder that is named after their digest
and the interpreter, and the package looks there first: what was compiled from other sources is never found. Without it,
or with ``INFERDECK_INTERPRETED`` set, Python runs the sources themselves. Both forms do the same.
"""

from __future__ import annotations

import hashlib
import os
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

HERE = Path(__file__).parent
PLATFORM = EXTENSION_SUFFIXES[0].strip(".").partition(".")[0]
"""What compiled code runs on: as cpython-312-x86_64-linux-gnu."""

MODULES = (
    "block",
    "block_pool",
    "config",
    "idle_queue",
    "in_flight",
    "leap",
    "prefix",
    "request",
    "request_state",
    "scheduled",
    "scheduler",
    "step_time",
    "virtual",
    "waiting",
)
_READ = ("native",)
"""What the compiler learns types from, besides."""


def folder() -> Path:
    """Of the compiled form of the sources as they are now, whether there is one or not."""
    digest = hashlib.sha256()
    for name in (*MODULES, *_READ):
        digest.update((HERE / f"{name}.py").read_bytes())
    return HERE / "compiled" / f"{PLATFORM}-{digest.hexdigest()[:16]}"


def _found() -> Path | None:
    if os.environ.get("INFERDECK_INTERPRETED") or not (HERE / "compiled").is_dir():
        return None
    path = folder()
    return path if path.is_dir() else None


COMPILED = _found()
"""The folder that this process runs the core from; None where Python runs the sources."""
