"""``calibrate``: measure a live engine, and write a profile that the simulator runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from console.cli.command import OPERATE, Place, command
from console.cli.confirm import Plan, agreed
from console.cli.effect import Effect
from console.cli.options import ApiKeyEnvOption, ApiKeyFilesOption, DryRunOption, OutputOption, YesOption
from console.cli.output import Format, write_data
from console.cli.reference import bare_name
from console.plain.terminal import out, say
from console.text import literal, pad
from control_plane.contracts.errors import InvalidRequest, NotFound


@command("calibrate", OPERATE, Effect.ENDS)
async def calibrate(
    place: Place,
    name: Annotated[str, typer.Argument(metavar="worker/NAME", help="The worker.")],
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="The profile. [default: NAME.toml here]")
    ] = None,
    api_key_file: ApiKeyFilesOption = None,
    api_key_env: ApiKeyEnvOption = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Measure what an engine's steps cost with a few real calls, and write a profile for the simulator.

    The calls go through the gateway to all workers of the pool, beside other traffic; nothing is drained. To write over
    a file is asked for. Run the profile with inferdeck up --engine sim --profile FILE.
    """
    from console.calibration.calibration import measure, profile_from
    from console.cli.calls import calls_of
    from console.plain.data import plain
    from control_plane.contracts.fleet import WorkerPhase
    from control_plane.contracts.sizing.measured import measured_toml

    worker_id = bare_name(name, "workers")
    target = file or Path(f"{worker_id}.toml")
    if target.suffix != ".toml":
        raise InvalidRequest(f"{target}: a profile's name ends in .toml", param="file")
    if not target.absolute().parent.is_dir():
        raise InvalidRequest(f"there is no folder {target.absolute().parent}", param="file")
    endpoint, keys = await calls_of(place, None, None, api_key_file, api_key_env)
    async with place.client() as client:
        workers = {worker.id: worker for worker in (await client.get_snapshot()).workers}
        worker = workers.get(worker_id)
        if worker is None or worker.info is None or worker.info.model is None:
            raise NotFound(f"no worker {worker_id} serves", hint="inferdeck get workers")
        sharing = [w for w in workers.values() if w.pool == worker.pool and w.phase is WorkerPhase.READY]
        model = worker.info.model
        running = sum(each.in_flight for each in sharing)
        beside = ("other calls make what is measured slower, and are made slower by it",) if running else ()
        there = target.exists()
        what = f"measure worker/{worker_id} with calls to pool/{worker.pool}, and write {target}"
        what += ", over what is in it" if there else ""
        plan = Plan(client.target.context, what, there, running, notes=beside)
        repeat = place.command("calibrate --yes", name, *(["--file", str(file)] if file else []))
        if not agreed(plan, dry_run=dry_run, yes=yes, repeat=repeat, output=output):
            return
        say(f"measuring worker/{literal(worker_id)} with calls of model {literal(model.name)}")
        steps = await measure(
            client,
            worker_id,
            model,
            max(1, len(sharing)),
            endpoint,
            keys[0].secret,
            lambda line: say(line, "quiet"),
        )
    made = profile_from(target.stem, worker.info, steps)
    target.write_text(measured_toml(made), encoding="utf-8")
    if output in (Format.JSON, Format.YAML):
        write_data({"file": str(target), **plain(made)}, output)
        return
    cost = made.cost
    out(f"{literal(str(target))}: {literal(made.source)}")
    decode = " · ".join(f"{rows}: {seconds * 1e3:.3f}" for rows, seconds in cost.decode)
    out(f"  a step {cost.step_s * 1e3:.3f} ms · rows that decode, in ms: {decode}")
    out(f"  a prompt token {cost.prefill_s * 1e6:.2f} µs · a token in the cache {cost.context_s * 1e9:.2f} ns")
    if cost.prefill_free:
        out(f"  the first {cost.prefill_free} prompt tokens of a step are free")
    out("")
    out(f"  {pad('REGIME', 16)} {'STEPS':>6} {'ERROR P50':>10} {'P90':>7}")
    for residual in made.residuals:
        out(f"  {pad(residual.regime, 16)} {residual.steps:>6} {residual.median:>10.1%} {residual.p90:>7.1%}")
    say(f"next: {place.home.up_command(f'up --engine sim --profile {literal(str(target))}')}", "quiet")
