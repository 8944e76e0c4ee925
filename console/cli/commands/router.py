"""``router``: one more router, by hand."""

from __future__ import annotations

import os
import re
import sys
from typing import Annotated

import typer

from console.cli.command import PLATFORM, Place, command
from console.cli.effect import Effect
from console.cli.options import ConfigOption
from console.cli.reach import Reach
from control_plane.contracts.errors import InvalidRequest

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


@command("router", PLATFORM, Effect.RUNS, Reach.HOME)
def router(
    place: Place,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name, like r9: one that no other router has.")],
    config: ConfigOption = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, metavar="PORT", help="Where it listens; 0 is any free one.")
    ] = 0,
) -> None:
    """Run one more router in the foreground, for the gateways of this home's platform.

    Those of "replicas" in [router] run by themselves; this one is looked after by whoever started it. Gateways share
    their calls out among all of them, as long as replicas is at least 1. Ctrl-C ends it, and what it had goes on at
    another one.
    """
    if not _NAME.fullmatch(name):
        raise InvalidRequest(
            f"{name!r} is not a name: lower-case letters, digits and inner hyphens, at most 40", param="name"
        )
    state = place.home.running()
    if state is None:
        raise place.home.absent()
    command = [sys.executable, "-m", "control_plane", "router", "--home", str(place.home.path), "--no-record"]
    command += ["--id", name, "--port", str(port)]
    if file := str(config.absolute()) if config is not None else state.config:
        command += ["--config", file]
    sys.stdout.flush()
    os.execve(sys.executable, command, {**os.environ, "PYTHONSAFEPATH": "1"})
