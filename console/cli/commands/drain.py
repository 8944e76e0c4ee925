"""``drain``: cordon, then wait until nothing runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from console.cli.command import OPERATE, Place, command
from console.cli.confirm import Plan, agreed
from console.cli.durations import duration
from console.cli.effect import Effect
from console.cli.exits import TIMED_OUT, Ended, tell
from console.cli.options import DryRunOption, YesOption
from console.cli.reference import bare_name
from console.leaving import unserved
from console.plain.terminal import out, say
from console.text import literal
from control_plane.contracts.errors import NotFound

if TYPE_CHECKING:
    from console.client import OperatorClient
    from control_plane.contracts.fleet import DrainProgress


@command("drain", OPERATE, Effect.ENDS)
async def drain(
    place: Place,
    worker: Annotated[str, typer.Argument(metavar="WORKER")],
    timeout: Annotated[str, typer.Option("--timeout", metavar="DURATION", help="Wait no longer; 0 has no end.")] = "0",
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Cordon a worker and wait until its requests have ended.

    Streams that run go on to their end. The worker stays cordoned, also when the wait ends early: see uncordon.
    """
    from asyncio import CancelledError

    from console.cli.commands.cordon import unknown_worker

    name = bare_name(worker, "workers")
    limit = duration(timeout, "--timeout")
    async with place.client() as client:
        try:
            plan = await _plan(client, name)
        except NotFound as error:
            raise await unknown_worker(client, place, name) from error
        warnings = unserved(await client.get_snapshot(), {name})
        told = Plan(client.target.context, plan.message, True, plan.in_flight, plan.request_ids, warnings)
        if not agreed(told, dry_run=dry_run, yes=yes, repeat=place.command("drain --yes", name)):
            return
        try:
            last = await _drained(client, name, limit)
        except CancelledError:
            say(f"no longer waiting; worker/{literal(name)} stays cordoned")
            say(f"hint: {place.command('uncordon', name)}")
            raise
    if not last.done:
        left = f"{last.in_flight} still in flight" + (f": {', '.join(last.request_ids)}" if last.request_ids else "")
        tell(
            f"worker/{name} is cordoned, but not drained after {timeout}; {left}",
            f"{place.command('drain', name)}  or  {place.command('uncordon', name)}",
        )
        raise Ended(TIMED_OUT)
    out(f"worker/{literal(name)} drained")


async def _plan(client: OperatorClient, name: str) -> DrainProgress:
    import contextlib

    async with contextlib.aclosing(client.drain(name, dry_run=True)) as progress:
        async for plan in progress:
            return plan
    raise NotFound(f"no worker named {name}")


async def _drained(client: OperatorClient, name: str, limit: float) -> DrainProgress:
    last: DrainProgress | None = None
    async for progress in client.drain(name, timeout_s=limit):
        if not progress.done and (last is None or progress.in_flight != last.in_flight):
            say(f"{literal(progress.message)}" if progress.message else f"{progress.in_flight} in flight")
        last = progress
        if progress.done or progress.timed_out:
            break
    assert last is not None
    return last
