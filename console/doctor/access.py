"""Whether callers on this machine are let in, asked of the platform that runs."""

from __future__ import annotations

import asyncio

from console.doctor.finding import Finding, ok, warn
from console.home import Home
from console.home_key import trouble_of, way_out
from control_plane.contracts.errors import InferDeckError


def home_key(home: Home) -> list[Finding]:
    """Nothing where no platform runs: only it knows its keys."""
    if home.running() is None:
        return []
    try:
        words = asyncio.run(trouble_of(home))
    except InferDeckError as error:
        hint = error.hint or home.up_command("logs control-plane")
        return [warn("home key", f"the control plane does not tell: {error.message}", hint)]
    return [warn("home key", words, way_out(home)) if words else ok("home key", "calls with it are let in")]
