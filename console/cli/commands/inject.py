"""``inject``: make a simulated worker fail, on purpose."""

from __future__ import annotations

from typing import Annotated

import typer

from console.cli.command import OPERATE, Place, command
from console.cli.confirm import announce, confirm
from console.cli.durations import duration
from console.cli.options import DryRunOption, OutputOption, YesOption
from console.cli.output import Format, write_data, write_rows
from console.cli.reference import bare_name
from console.plain.data import plain
from console.plain.table import Column
from console.plain.terminal import out
from console.text import literal
from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.failure import DEADLY, Failure, failure_kind


@command("inject", OPERATE)
async def inject(
    place: Place,
    worker: Annotated[str, typer.Argument(metavar="worker/NAME", help="A simulated worker.")],
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="[KIND]", help="crash, engine_dies, stall, slow, drop_steps, drop_events or freeze_load."
        ),
    ] = None,
    after: Annotated[str, typer.Option("--after", metavar="DURATION", help="Until it begins.")] = "0",
    for_: Annotated[str, typer.Option("--for", metavar="DURATION", help="Until it is over; 0: it stays.")] = "0",
    factor: Annotated[float, typer.Option("--factor", help="With slow: how many times as long a step takes.")] = 2.0,
    heal: Annotated[bool, typer.Option("--heal", help="End all failures there are.")] = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Make a simulated worker fail, or tell which failures it has. A real engine refuses.

    Nothing else of the platform knows that it is on purpose: it has to notice, and to do what it does when it is not.
    """
    name = bare_name(worker, "workers")
    failure = None
    if kind is not None:
        failure = Failure(failure_kind(kind), duration(after, "--after"), duration(for_, "--for"), factor)
        if failure.kind in DEADLY and failure.for_s:
            raise InvalidRequest(f"--for: {kind} has no end, the platform starts the worker again", param="for")
    async with place.client() as client:
        found = await client.inject(name)
        if failure is not None and failure.kind in DEADLY and not dry_run:
            in_flight = sum(each.in_flight for each in (await client.get_snapshot()).workers if each.id == name)
            announce(client.target.context, f"worker/{name}: {failure.kind}", in_flight)
            confirm(f"end worker/{name}", yes=yes, repeat=place.command("inject --yes", name, failure.kind))
        if dry_run:
            out(f"worker/{literal(name)}: would inject {failure.kind} (dry run)" if failure else "(dry run)")
            return
        if failure is not None or heal:
            found = await client.inject(name, failure, heal=heal)
    if output in (Format.JSON, Format.YAML):
        write_data([plain(each) for each in found], output)
    elif output is Format.NAME:
        out(f"worker/{literal(name)}")
    elif failure is not None and failure.kind in DEADLY:
        out(f"worker/{literal(name)}: {failure.kind}")
    elif not found:
        out(f"worker/{literal(name)} has no failures")
    else:
        write_rows(
            found,
            [
                Column("FAILURE", lambda each: str(each.kind), keep=9),
                Column("AFTER", lambda each: f"{each.after_s:g} s", keep=5),
                Column("FOR", lambda each: f"{each.for_s:g} s" if each.for_s else "until healed", keep=6),
                Column("FACTOR", lambda each: f"{each.factor:g}" if each.kind == "slow" else "", keep=1),
            ],
        )
