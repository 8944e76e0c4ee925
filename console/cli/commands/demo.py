"""``demo``: see it work, with one word."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from console.cli.command import PLATFORM, Place, command
from console.cli.commands.up import keeps_settings
from console.cli.effect import Effect
from console.cli.exits import FAILED, INTERRUPTED, Ended
from console.cli.reach import Reach
from console.home import Home
from console.plain.terminal import flush, is_terminal, out, say
from console.text import literal
from control_plane.contracts.errors import InvalidRequest

if TYPE_CHECKING:
    from console.home import State
    from control_plane.contracts.fleet import Snapshot

DEMO_CONFIG = "# The demo takes any free port. All else by default.\n[gateway]\nport = 0\n\n[api]\nport = 0\n"


@command("demo", PLATFORM, Effect.RUNS, Reach.HOME)
def demo(
    place: Place,
    tour: Annotated[bool, typer.Option("--tour", help="The scripted tour, also on a terminal.")] = False,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Settings (TOML) instead of the demo's own.")
    ] = None,
) -> None:
    """See it work: two real workers and the console, or a scripted tour.

    Without a terminal it is the tour, which checks every step. The tour has a home and ports of its own and leaves
    nothing; it exits 0 only if each step did what it says. On a terminal the platform runs in the usual home until you
    leave the console.
    """
    if config is not None and not config.is_file():
        raise InvalidRequest(f"there is no file {config}", param="config")
    if tour or not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
        code = _tour(config)
    else:
        code = _console(place.home, config)
    if code:
        raise Ended(code)


def _tour(config: Path | None) -> int:
    import asyncio

    from console.cli.attend import Interrupts
    from console.plain.progress import StartProgress
    from console.tour import Tour

    def line(text: str) -> None:
        progress.clear()
        out(text)
        flush()

    settings = {} if config is None else {"config": config.read_text()}

    async def go() -> int:
        with Interrupts().caught() as interrupts:
            going = asyncio.create_task(Tour(line, progress, **settings).go())
            interrupt = asyncio.create_task(interrupts.next())
            await asyncio.wait((going, interrupt), return_when=asyncio.FIRST_COMPLETED)
            if going.done():
                interrupt.cancel()
                return 0 if going.result() else FAILED
            say("interrupted: stopping everything")
            going.cancel()
            await asyncio.wait((going,))
            return INTERRUPTED

    progress = StartProgress()
    return asyncio.run(go())


def _console(home: Home, config: Path | None) -> int:
    """A platform that lives as long as the console does; one that is up already is only looked at."""
    import asyncio

    from console.cli.attend import Attendant, Interrupts
    from console.tui.app import ENDS, run

    running = home.running()
    if running is not None:
        keeps_settings(home, running, config)
        say(f"already up in {literal(home.shown)}: its console opens, and leaving it ends nothing")
        return run(home.path, readonly=False)

    async def start() -> tuple[Attendant, int | None]:
        with Interrupts().caught() as interrupts:
            attendant = Attendant(home, config or _own_config(home), interrupts, detach=False)
            return attendant, await attendant.start(0.0, _nothing)

    async def end() -> None:
        with Interrupts().caught() as interrupts:
            await attendant.end(interrupts)

    attendant, code = asyncio.run(start())
    if code is not None:
        attendant.own.let_go()
        return code
    try:
        return run(home.path, readonly=False, leaving=ENDS)
    finally:
        asyncio.run(end())


def _own_config(home: Home) -> Path | None:
    """The home's settings where it has some, else the demo's: any free port."""
    if (home.folder.config).exists():
        return None
    path = home.path / "run" / "demo.toml"
    for folder in (home.path, path.parent):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_text(DEMO_CONFIG)
    return path


async def _nothing(state: State, snapshot: Snapshot) -> None:
    """The console shows it all."""
