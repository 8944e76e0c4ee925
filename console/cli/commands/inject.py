"""``inject``: make a simulated worker fail, on purpose."""

from __future__ import annotations

from typing import Annotated

import typer

from console import figures
from console.cli.command import OPERATE, Place, command
from console.cli.confirm import Plan, agreed
from console.cli.durations import duration
from console.cli.effect import Effect
from console.cli.options import DryRunOption, OutputOption, YesOption
from console.cli.output import Format, write_data, write_rows
from console.cli.reference import bare_name
from console.plain.data import plain
from console.plain.table import Column
from console.plain.terminal import out
from console.text import literal
from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.failure import DEADLY, Failure, FailureKind, failure_kind

FACTOR = 2.0


@command("inject", OPERATE, Effect.ENDS)
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
    factor: Annotated[float, typer.Option("--factor", help="With slow: how many times as long a step takes.")] = FACTOR,
    heal: Annotated[bool, typer.Option("--heal", help="End all failures there are.")] = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Make a simulated worker fail, or tell which failures it has. A real engine refuses.

    Nothing else of the platform knows that it is on purpose: it has to notice, and to do what it does when it is not.
    Whatever makes it fail is asked for first.
    """
    name = bare_name(worker, "workers")
    failure = None
    if kind is not None:
        failure = Failure(failure_kind(kind), duration(after, "--after"), duration(for_, "--for"), factor)
        if failure.kind in DEADLY and failure.for_s:
            raise InvalidRequest(f"--for: {kind} has no end, the platform starts the worker again", param="for")
    async with place.client() as client:
        if failure is None and not heal:
            found = await client.inject(name)
        else:
            # The same call, which refuses what would be refused.
            found = await client.inject(name, failure, heal=heal, dry_run=True)
            in_flight = sum(each.in_flight for each in (await client.get_snapshot()).workers if each.id == name)
            healed = f"end {figures.plural(len(found), 'failure')} of worker/{name}" if heal else ""
            what = " and ".join(filter(None, (healed, _words(name, failure) if failure else "")))
            plan = Plan(client.target.context, what, failure is not None, in_flight if failure is not None else 0)
            kinds = (failure.kind,) if failure is not None else ()
            repeat = place.command("inject --yes", name, *kinds, *_given(after, for_, factor, heal=heal))
            if not agreed(plan, dry_run=dry_run, yes=yes, repeat=repeat, output=output):
                return
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


def _words(name: str, failure: Failure) -> str:
    """The failure as something to do."""
    how = f", steps {failure.factor:g} times as long," if failure.kind is FailureKind.SLOW else ""
    when = f" in {failure.after_s:g} s" if failure.after_s else ""
    long = "" if failure.kind in DEADLY else f" for {failure.for_s:g} s" if failure.for_s else " until it is healed"
    return f"make worker/{name} fail{when}: {failure.kind}{how}{long}"


def _given(after: str, for_: str, factor: float, *, heal: bool) -> list[str]:
    """The options that are not as they are by default."""
    options = ["--after", after] if after != "0" else []
    options += ["--for", for_] if for_ != "0" else []
    options += ["--factor", f"{factor:g}"] if factor != FACTOR else []
    return [*options, "--heal"] if heal else options
