"""``sleep`` and ``wake``: have a worker's engine give its device's memory back, and take it again."""

from __future__ import annotations

from typing import Annotated

import typer

from console.cli.command import OPERATE, Place, command
from console.cli.commands.cordon import tell_result, unknown_worker
from console.cli.confirm import Plan, agreed
from console.cli.effect import Effect
from console.cli.options import DryRunOption, YesOption
from console.cli.reference import bare_name
from console.leaving import unserved
from control_plane.contracts.errors import NotFound
from control_plane.contracts.sleep import SHALLOW, SLEEP_LEVELS

WorkerArgument = Annotated[str, typer.Argument(metavar="WORKER")]


@command("sleep", OPERATE, Effect.ENDS)
async def sleep(
    place: Place,
    worker: WorkerArgument,
    level: Annotated[
        int,
        typer.Option(
            "--level",
            min=min(SLEEP_LEVELS),
            max=max(SLEEP_LEVELS),
            help="1: weights move to the host's memory; 2: they are discarded.",
        ),
    ] = SHALLOW,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Put a worker's engine to sleep: its device's memory is free for others until wake.

    Its KV cache is lost, and it gets no requests. Refused while requests run: drain it first. Real vLLM sleeps on a GPU
    with enable_sleep_mode = true in the pool's engine_args.
    """
    name = bare_name(worker, "workers")
    async with place.client() as client:
        try:
            result = await client.sleep(name, level, dry_run=True)
        except NotFound as error:
            raise await unknown_worker(client, place, name) from error
        if not result.changed:
            tell_result(result, dry_run)
            return
        warnings = unserved(await client.get_snapshot(), {name})
        plan = Plan(client.target.context, result.message, True, result.in_flight, notes=warnings)
        repeat = place.command("sleep --yes", name, *(("--level", str(level)) if level != SHALLOW else ()))
        if not agreed(plan, dry_run=dry_run, yes=yes, repeat=repeat):
            return
        tell_result(await client.sleep(name, level))


@command("wake", OPERATE, Effect.CHANGES)
async def wake(place: Place, worker: WorkerArgument, dry_run: DryRunOption = False) -> None:
    """Wake a worker that sleeps; it answers when the worker takes requests again."""
    name = bare_name(worker, "workers")
    async with place.client() as client:
        try:
            tell_result(await client.wake(name, dry_run=dry_run), dry_run)
        except NotFound as error:
            raise await unknown_worker(client, place, name) from error
