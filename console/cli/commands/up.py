"""``up``: start a platform and stay with it, or leave it running."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from console.cli.command import PLATFORM, Place, command
from console.cli.durations import duration
from console.cli.effect import Effect
from console.cli.exits import Ended
from console.cli.options import ConfigOption, OutputOption
from console.cli.output import Format, write_data
from console.cli.reach import Reach
from console.home import Home, State
from console.plain.terminal import flush, out, paint, say
from console.text import literal, pad
from control_plane.contracts.errors import Conflict, InferDeckError, InvalidRequest

if TYPE_CHECKING:
    from control_plane.contracts.fleet import Snapshot


@command("up", PLATFORM, Effect.RUNS, Reach.HOME)
async def up(
    place: Place,
    config: ConfigOption = None,
    detach: Annotated[
        bool, typer.Option("-d", "--detach", help="Return when it serves, and leave it running.")
    ] = False,
    engine: Annotated[
        str | None, typer.Option("--engine", metavar="sim", help="Simulate all pools: needs no model, GPU or vLLM.")
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            metavar="NAME|FILE",
            help="What is simulated: GPU-MODEL[-tpN], like h100-llama-3.1-70b-tp4, or a file of inferdeck calibrate.",
        ),
    ] = None,
    timeout: Annotated[
        str, typer.Option("--timeout", metavar="DURATION", help="Wait no longer until it serves; 0 has no end.")
    ] = "30m",
    output: OutputOption = Format.TABLE,
) -> None:
    """Start the platform: control plane, gateway and workers.

    Stays in the foreground; Ctrl-C brings everything down and leaves nothing. With --detach it returns as soon as
    everything serves, and inferdeck down ends it. Where a control plane died and its workers run on, they are taken
    over, by the settings that they were started with unless --config or --engine say otherwise.
    """
    from console.cli.attend import attend, wait_shown

    if config is not None and not config.is_file():
        raise InvalidRequest(f"there is no file {config}", param="config")
    arguments = simulation(engine, profile)
    limit, home = duration(timeout, "--timeout"), place.home
    running = home.running()
    if running is not None:
        keeps_settings(home, running, config, arguments)
        say(f"already up in {literal(home.shown)}")
        await show(home, *await wait_shown(home, limit), output, stays=False)
        return
    config, arguments = taken_over(home, config, arguments)
    code = await attend(
        home,
        config,
        limit,
        lambda state, snapshot: show(home, state, snapshot, output, stays=not detach),
        detach=detach,
        arguments=arguments,
    )
    if code:
        raise Ended(code)


def simulation(engine: str | None, profile: str | None) -> list[str]:
    """The control plane's arguments. Raises InvalidRequest for another engine: that is a pool's setting."""
    if engine not in (None, "sim"):
        raise InvalidRequest(
            f"--engine can be sim, not {literal(engine)}; what really runs is the pools' setting", param="engine"
        )
    if profile is None:
        return ["--engine", "sim"] if engine else []
    if profile.endswith(".toml"):
        profile = str(Path(profile).absolute())
    return ["--engine", "sim", "--profile", profile]


def keeps_settings(home: Home, running: State, config: Path | None, arguments: Sequence[str] = ()) -> None:
    """Raises Conflict where other settings are asked for than those that the platform runs with, InvalidRequest where
    these are wrong: it would seem to use them."""
    if config is None and not arguments:
        return
    from console.doctor.settings import asked_beside

    asked = asked_beside(home, running, config, arguments)
    if asked.error:
        raise InvalidRequest(asked.error, param="config", hint=asked.hint)
    if asked.edited:
        words = shlex.join([*(("--config", str(config)) if config else ()), *arguments])
        named = ", ".join(asked.edited[:3]) + (", …" if len(asked.edited) > 3 else "")
        raise Conflict(
            f"already up in {home.shown}; it keeps the settings that it was started with. Others in {words}: {named}",
            hint=f"{home.up_command('down')}, then {home.up_command()} {words}",
        )


def taken_over(home: Home, config: Path | None, arguments: list[str]) -> tuple[Path | None, list[str]]:
    """The settings to start with: those of the control plane that is gone, where something of it runs and no others
    were asked for. Says which, and what they end. Raises InvalidRequest where their file is gone too."""
    from console.doctor.settings import retired_by
    from console.earlier import earlier

    left = home.leftovers()
    if not left:
        return config, arguments
    names = ", ".join(entry.name for entry in left)
    before = earlier(home) if config is None and not arguments else None
    if before is not None:
        if before.config is not None and not before.config.is_file():
            raise InvalidRequest(
                f"still running: {names}; they were started with {before.config}, which is no more",
                param="config",
                hint=f"{home.up_command()} --config FILE, or {home.up_command('down')}",
            )
        config, arguments = before.config, list(before.arguments)
        by = f"the settings that they run with: {before.shown}" if before.shown else "the default settings, as before"
        say(f"taking over {literal(names)}, by {literal(by)}")
    if retired := retired_by(home, config, arguments):
        words = ", ".join(f"worker/{name}" for name in retired)
        say(f"to be retired, as these settings don't want it: {literal(words)}", "watch")
    return config, arguments


async def show(home: Home, state: State, snapshot: Snapshot, output: Format, *, stays: bool) -> None:
    """Where everything is: the data on stdout, what to do next on stderr."""

    from console.facts import curl, fact_lines, facts
    from console.home_key import trouble_of, way_out

    if output in (Format.JSON, Format.YAML):
        write_data(facts(home, state, snapshot), output)
    else:
        out(paint(f"InferDeck {literal(state.version)} is up", "strong"))
        for label, text in fact_lines(home, state, snapshot):
            out(f"  {pad(label, 10)} {literal(text)}")
        if snapshot.models:
            out("")
            for line in curl(state, snapshot.models[0].name):
                out(f"  {literal(line)}")
    flush()
    with contextlib.suppress(InferDeckError):
        if trouble := await trouble_of(home):
            say(f"{literal(trouble)}; {literal(way_out(home))} makes another", "watch")
    say("")
    end = "Ctrl-C stops everything" if stays else home.up_command("down")
    say(f"next: {home.up_command('console')} · {home.up_command('chat')} · {end}", "quiet")
