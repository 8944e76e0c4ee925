"""``top``: the fleet's figures, once or live."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from console import figures
from console.cli.command import LOOK, Place, command
from console.cli.durations import duration
from console.cli.effect import Effect
from console.cli.options import OutputOption
from console.cli.output import Format, write_rows
from console.cli.reference import bare_name, not_found
from console.plain.data import to_json, to_yaml
from console.plain.terminal import coloured, flush, out, width
from console.pressure import band_words
from console.text import fit
from control_plane.contracts.errors import InvalidRequest

if TYPE_CHECKING:
    from control_plane.contracts.fleet import Snapshot


@command("top", LOOK, Effect.LOOKS)
async def top(
    place: Place,
    what: Annotated[
        str | None, typer.Argument(metavar="[worker/NAME]", help="Only this worker. [default: all of them]")
    ] = None,
    live: Annotated[bool, typer.Option("--live", "-f", help="Go on, in place on a terminal.")] = False,
    every: Annotated[str, typer.Option("--every", metavar="DURATION", help="How often, with --live.")] = "1s",
    steps: Annotated[bool, typer.Option("--steps", help="What its engine does, a line a step, as it happens.")] = False,
    count: Annotated[
        int,
        typer.Option("-n", "--count", metavar="N", min=0, show_default=False, help="With --steps, end after so many."),
    ] = 0,
    since: Annotated[
        int,
        typer.Option(
            "--from",
            metavar="STEP",
            min=0,
            max=(1 << 63) - 1,
            show_default=False,
            help="With --steps, begin there. [default: the last ten]",
        ),
    ] = 0,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show every worker's KV cache, batch, tokens/s, TTFT and ITL; or one engine's steps.

    With --live and with --steps, -o json prints one object a line.
    """
    interval = max(0.1, duration(every, "--every"))
    name = None if what is None else bare_name(what, "workers")
    if steps:
        from console.cli.steps import follow

        if name is None:
            raise InvalidRequest("whose steps?", param="name", hint=place.command("top worker/NAME --steps"))
        await follow(place, name, since, count, output)
        return
    async with place.client() as client:
        if not live:
            _show(_only(await client.get_snapshot(), name, place), output, once=True)
            return
        async for snapshot in client.watch(interval):
            snapshot = _only(snapshot, name, place)
            in_place = coloured(sys.stdout) and output in (Format.TABLE, Format.WIDE)
            if in_place:
                out("\x1b[H\x1b[2J", end="")
            _show(snapshot, output, once=False)
            if not in_place and output in (Format.TABLE, Format.WIDE):
                out("")
            flush()


def _only(snapshot: Snapshot, name: str | None, place: Place) -> Snapshot:
    """The snapshot with one worker."""
    if name is None:
        return snapshot
    chosen = tuple(worker for worker in snapshot.workers if worker.id == name)
    if not chosen:
        raise not_found("workers", name, [worker.id for worker in snapshot.workers], place.command("get workers"))
    pools = tuple(pool for pool in snapshot.pools if pool.name == chosen[0].pool)
    return dataclasses.replace(snapshot, workers=chosen, pools=pools)


def totals(snapshot: Snapshot) -> dict[str, Any]:
    """The fleet in a few figures; only workers whose load is current count."""
    from console.plain.resources import load_of

    loads = [load for worker in snapshot.workers if (load := load_of(worker)) is not None]
    blocks = sum(load.total_blocks for load in loads)
    return {
        "workers_ready": sum(pool.ready for pool in snapshot.pools),
        "workers_desired": sum(pool.desired for pool in snapshot.pools),
        "running": sum(load.running for load in loads),
        "waiting": sum(load.waiting for load in loads),
        "queued": sum(gateway.queued for gateway in snapshot.gateways)
        + sum(router.queued for router in snapshot.routers),
        "kv_usage": sum(load.used_blocks for load in loads) / blocks if blocks else None,
        "tokens_per_s": sum(load.tokens_per_s for load in loads) if loads else None,
    }


def simulated_words(snapshot: Snapshot) -> list[str]:
    """First of all, where figures are a simulator's: what comes later may find no room."""
    from console.plain.resources import is_simulated

    made_up = sum(map(is_simulated, snapshot.workers))
    if not made_up:
        return []
    return ["simulated"] if made_up == len(snapshot.workers) else [f"{made_up} of {len(snapshot.workers)} simulated"]


def _show(snapshot: Snapshot, output: Format, *, once: bool) -> None:
    from console.plain.resources import RESOURCES, data_of

    if output is Format.NAME:
        for worker in snapshot.workers:
            out(f"worker/{worker.id}")
        return
    sums = totals(snapshot)
    if output in (Format.JSON, Format.YAML):
        data = {
            "taken_unix": snapshot.taken_unix,
            "totals": sums,
            "pools": [data_of(pool) for pool in snapshot.pools],
            "workers": [data_of(worker) for worker in snapshot.workers],
        }
        if output is Format.YAML:
            out(to_yaml(data) if once else to_yaml([data]))
        else:
            out(to_json(data, indent=2 if once else None))
        return
    line = (
        f"{sums['workers_ready']} of {figures.plural(sums['workers_desired'], 'worker')} ready · "
        f"{sums['running']} running · {sums['waiting']} waiting · {sums['queued']} queued · "
        f"KV {figures.percent(sums['kv_usage'])} · {figures.rate(sums['tokens_per_s'])} tok/s"
    )
    bands = [f"{pool.name} {band_words(pool)}" for pool in snapshot.pools if pool.band]
    line = " · ".join([*simulated_words(snapshot), line, *bands])
    room = width(sys.stdout)
    out(line if room is None else fit(line, room))
    if snapshot.workers:
        write_rows(snapshot.workers, RESOURCES["workers"].columns(snapshot), wide=output is Format.WIDE)
