"""``python -m tests.bench.fidelity``: does the simulator take as long as the engine it was calibrated on?

One real vLLM worker behind its gateway. It is calibrated as ``inferdeck calibrate`` does it, then serves traffic that
the calibration has not seen, one regime after another, and the simulator is given the same requests (arrivals, lengths,
shared prefixes) in virtual time. Compared are TTFT, from a request's arrival at the worker to its first token, and ITL,
every gap between two tokens.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import uvloop

from console.calibration.calibration import measure, profile_from
from console.client import OperatorClient
from console.home import Home, target_for
from console.http import Endpoint
from console.load.plan import Plan
from console.load.runner import Run
from console.load.shape import Length
from control_plane.contracts.fleet import RequestPhase, RequestView, Stage, WorkerView
from control_plane.contracts.sizing.measured import Measured, measured_toml
from tests.bench.stack import Stack, running_stack
from workers.engine.sim import virtual
from workers.engine.sim.profile import profile_of
from workers.engine.sim.request import SimRequest
from workers.engine.sim.scheduled import Scheduled
from workers.engine.sim.settings import SimSettings
from workers.engine.sim.setup import scheduler_config

MODEL = "smollm2-135m"
MAX_CONTEXT = 1024
CONFIG = f"""
[gateway]
port = 0
[api]
port = 0
[[pool]]
name = "real"
model = "{MODEL}"
replicas = 1
max_context = {MAX_CONTEXT}
kv_memory = "96MiB"
[pool.engine_args]
max_num_seqs = 16
max_num_batched_tokens = 512
"""

START_TIMEOUT_S = 300.0
SETTLE_S = 3.0
ALONE_S = 3600.0


@dataclass(frozen=True, slots=True)
class Regime:
    """Traffic of one kind; without a ``rate`` (requests a second, Poisson) one call follows the other."""

    name: str
    requests: int
    rate: float
    prompt: Length
    output: Length


REGIMES = (
    Regime("idle", 24, 0.0, Length(8, 300), Length(8, 48)),
    Regime("batched", 60, 1.2, Length(16, 160), Length(16, 64)),
    Regime("KV-pressured", 48, 2.0, Length(150, 350), Length(96, 200)),
)


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds; ``itl`` of every gap of every request, ``preemptions`` where they are known."""

    ttft: tuple[float, ...]
    itl: tuple[float, ...]
    preemptions: int

    def quantiles(self) -> tuple[float, float, float, float]:
        return (*_p50_p90(self.ttft), *_p50_p90(self.itl))


def _p50_p90(values: Sequence[float]) -> tuple[float, float]:
    cuts = statistics.quantiles(values, n=10, method="inclusive")
    return cuts[4], cuts[8]


async def real(stack: Stack, client: OperatorClient, regime: Regime, seed: int) -> tuple[Times, list[RequestView]]:
    """Serve the traffic; what the stopwatch said, and the requests in the order of their arrival."""
    plan = Plan(
        model=MODEL,
        concurrency=1,
        rate=regime.rate,
        requests=regime.requests,
        duration_s=0.0,
        prompt=regime.prompt,
        output=regime.output,
        seed=seed,
        ignore_eos=True,
    )
    before, began = _preemptions(await _worker(client)), time.time()
    run = Run(plan, _endpoint(stack), [stack.key])
    await run.go()
    if run.tally.ok != regime.requests:
        raise RuntimeError(f"{regime.name}: {run.tally.ok} of {regime.requests} calls succeeded")
    await asyncio.sleep(SETTLE_S)
    snapshot = await client.get_snapshot(finished_requests=True)
    served = [each for each in snapshot.requests if each.arrival_unix >= began]
    if len(served) != regime.requests or any(each.phase is not RequestPhase.FINISHED for each in served):
        raise RuntimeError(f"{regime.name}: {len(served)} of {regime.requests} requests are known")
    served.sort(key=lambda each: each.arrival_unix)
    times = Times(
        tuple(_stage(each, "worker_queue").duration_s + _stage(each, "prefill").duration_s for each in served),
        tuple(run.tally.itl.values),
        _preemptions(await _worker(client)) - before,
    )
    return times, served


def simulated(measured: Measured, served: Sequence[RequestView], *, alone: bool) -> Times:
    """The same requests on the calibrated simulator: arrivals as they were, or each ``alone``."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "measured.toml"
        path.write_text(measured_toml(measured))
        settings = SimSettings(profile=str(path), scheduling_policy="priority")
        profile = profile_of(settings)
    config = scheduler_config(settings, profile, MAX_CONTEXT)
    shared = max(each.cached_tokens for each in served)
    requests = [
        SimRequest(
            each.id,
            [*range(shared), *range(1_000_000 * (number + 1), 1_000_000 * (number + 1) + each.prompt_tokens - shared)],
            each.output_tokens,
            arrival=number * ALONE_S if alone else each.arrival_unix + _stage(each, "worker_queue").start_s,
        )
        for number, each in enumerate(served)
    ]
    seen: dict[str, float] = {}
    gaps: list[float] = []

    def watch(worker: int, scheduled: Scheduled, begun: float, seconds: float) -> None:
        at = begun + seconds
        for name in scheduled.due:
            if name in seen:
                gaps.append(at - seen[name])
            seen[name] = at

    requests.sort(key=lambda request: request.arrival)
    report = virtual.run(requests, config, profile.timer, 1, watch=watch)
    return Times(
        tuple(outcome.ttft_s for outcome in report.outcomes),
        tuple(gaps),
        sum(outcome.preemptions for outcome in report.outcomes),
    )


def _endpoint(stack: Stack) -> Endpoint:
    return Endpoint.parse(f"http://{stack.host}:{stack.port}/v1")


def _stage(request: RequestView, name: str) -> Stage:
    return next(stage for stage in request.stages if stage.name == name)


async def _worker(client: OperatorClient) -> WorkerView:
    [worker] = (await client.get_snapshot()).workers
    return worker


def _preemptions(worker: WorkerView) -> int:
    return worker.load.preemptions if worker.load is not None else 0


async def compare(seed: int, regimes: Sequence[Regime]) -> tuple[Measured, dict[str, tuple[Times, Times]]]:
    async with running_stack(1, config=CONFIG, start_timeout_s=START_TIMEOUT_S) as stack:
        return await _compare(stack, seed, regimes)


async def _compare(
    stack: Stack, seed: int, regimes: Sequence[Regime]
) -> tuple[Measured, dict[str, tuple[Times, Times]]]:
    results: dict[str, tuple[Times, Times]] = {}
    async with OperatorClient(target_for(Home(stack.home))) as client:
        worker = await _worker(client)
        assert worker.info is not None
        assert worker.info.model is not None
        steps = await measure(client, worker.id, worker.info.model, 1, _endpoint(stack), stack.key, _told)
        measured = profile_from("fidelity", worker.info, steps)
        for residual in measured.residuals:
            _told(f"  {residual.regime}: {residual.steps} steps, {residual.median:.1%}, p90 {residual.p90:.1%}")
        for number, regime in enumerate(regimes):
            times, served = await real(stack, client, regime, seed + number)
            results[regime.name] = times, simulated(measured, served, alone=not regime.rate)
            _told(f"{regime.name}: {regime.requests} requests served")
    return measured, results


def _told(line: str) -> None:
    print(line, file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.fidelity", description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write every time to this file")
    options = parser.parse_args()
    measured, results = uvloop.run(compare(options.seed, REGIMES))
    print(f"{measured.source}; load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
    print("| regime | requests | | TTFT p50 | p90 | ITL p50 | p90 | preemptions |\n|---|---|---|---|---|---|---|---|")
    for name, (engine, sim) in results.items():
        for who, times in (("vLLM", engine), ("simulator", sim)):
            cells = " | ".join(f"{value * 1e3:.0f} ms" for value in times.quantiles())
            print(f"| {name} | {len(times.ttft)} | {who} | {cells} | {times.preemptions} |")
        errors = [mine / true - 1 for mine, true in zip(sim.quantiles(), engine.quantiles(), strict=True)]
        print(f"| {name} | | error | {' | '.join(f'{error:+.1%}' for error in errors)} | |")
    if options.json:
        rows = {
            name: {
                who: {"ttft": times.ttft, "itl": times.itl, "preemptions": times.preemptions}
                for who, times in (("vllm", engine), ("simulator", sim))
            }
            for name, (engine, sim) in results.items()
        }
        options.json.write_text(json.dumps({"source": measured.source, "regimes": rows}))


if __name__ == "__main__":
    main()
