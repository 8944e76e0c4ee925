"""``console``: the fleet on one screen."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from console.cli.command import PLATFORM, Place, command
from console.cli.effect import Effect
from console.cli.exits import Ended
from console.plain.terminal import is_terminal
from control_plane.contracts.errors import InvalidRequest


@command("console", PLATFORM, Effect.RUNS)
def console(
    place: Place,
    readonly: Annotated[bool, typer.Option("--readonly", help="Look only; nothing can be changed.")] = False,
) -> None:
    """Open the console: workers, requests and their figures, live.

    With --server it shows that platform, with the operator's key and certificate that are named.
    """
    place.target()
    if not is_terminal(sys.stdout) or not is_terminal(sys.stdin):
        raise InvalidRequest("the console needs a terminal", hint=place.command("top"))
    from console.tui.app import run

    raise Ended(run(place.home.path, readonly=readonly, target=place.target, place=place.server))
