"""Which GPUs there are, without asking a driver library."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def visible_gpus(environ: Mapping[str, str] = os.environ, devices: Path = Path("/dev")) -> tuple[int, ...]:
    """Indexes of the GPUs that workers may be given: those of ``CUDA_VISIBLE_DEVICES`` where it is set, else all.

    Names there that are no indexes (UUIDs) are passed over: a worker is told its devices by index.
    """
    listed = environ.get("CUDA_VISIBLE_DEVICES")
    if listed is not None:
        return tuple(int(name) for name in listed.split(",") if name.strip().isdecimal())
    numbers = (path.name.removeprefix("nvidia") for path in devices.glob("nvidia[0-9]*"))
    return tuple(sorted(int(number) for number in numbers if number.isdecimal()))
