"""How fast the simulator is: ``python -m tests.bench.sim_speed [virtual|live] [--seconds S]``.

``virtual``: 8 workers at 50 requests/s in virtual time, as a multiple of real time. ``live``: 64 engines in this one
process in wall-clock time, at 4 requests/s each; ``late`` is by how much tokens came after their time, as p50 and p99
of all. The form of the simulator's core and the load of the machine are printed with both: they decide most of it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import uvloop

from control_plane.contracts.step import EngineStep
from control_plane.contracts.worker import Delta, Generate, Sampling
from tests.scripted_worker import scripted_spec
from workers.engine.sim import core
from workers.engine.sim.engine import SimEngine
from workers.engine.sim.profile import profile_of
from workers.engine.sim.request import SimRequest
from workers.engine.sim.settings import SimSettings
from workers.engine.sim.setup import scheduler_config
from workers.engine.sim.virtual import run

PROFILE = "h100-llama-3.1-8b"
PROMPT, OUTPUT = 245, 100  # medians of log-normal lengths


def trace(seconds: float, rate: float, seed: int = 1) -> Iterator[SimRequest]:
    dice, now, number = random.Random(seed), 0.0, 0
    while (now := now + dice.expovariate(rate)) < seconds:
        number += 1
        prompt, output = (max(1, round(median * dice.lognormvariate(0, 0.6))) for median in (PROMPT, OUTPUT))
        first = dice.randrange(1 << 20)
        yield SimRequest(f"r{number}", range(first, first + min(prompt, 4000)), min(output, 4000), arrival=now)


def virtual(seconds: float) -> None:
    settings = SimSettings(profile=PROFILE)
    profile = profile_of(settings)
    config = scheduler_config(settings, profile, 8192)
    requests = list(trace(seconds, 50.0))
    begun, used = time.monotonic(), time.process_time()
    report = run(requests, config, profile.timer, 8)
    wall, cpu = time.monotonic() - begun, time.process_time() - used
    print(
        f"virtual: 8 workers, {len(requests)} requests, {report.steps} steps, {report.tokens} tokens, "
        f"{report.seconds:.0f} s simulated in {wall:.2f} s ({cpu:.2f} s of CPU): {report.seconds / wall:.0f} x real "
        f"time, {report.seconds / cpu:.0f} x by CPU time; {1e6 * cpu / len(requests):.0f} us a request"
    )


async def live(seconds: float, engines: int = 64, rate: float = 4.0) -> None:
    late: list[float] = []
    done = 0

    def heard(steps: Sequence[EngineStep]) -> None:
        now = time.time()
        late.extend(now - step.started_unix - step.execute_s for step in steps if step.rows)

    def sink(deltas: Sequence[Delta]) -> None:
        nonlocal done
        done += sum(delta.done is not None for delta in deltas)

    with tempfile.TemporaryDirectory() as folder:
        made = [
            SimEngine(scripted_spec(Path(folder), engine="sim", profile=PROFILE, max_context=8192))
            for _ in range(engines)
        ]
        for engine in made:
            engine.on_steps = heard
            await engine.start()
        dice, number, begun, used = random.Random(2), 0, time.monotonic(), time.process_time()
        due = begun
        while due < begun + seconds:
            due += dice.expovariate(rate * engines)
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            number += 1
            length = max(1, round(PROMPT * dice.lognormvariate(0, 0.6)))
            prompt = [dice.randrange(256) for _ in range(min(length, 4000))]
            output = max(1, round(OUTPUT * dice.lognormvariate(0, 0.6)))
            call = Generate(number, f"r{number}", prompt, Sampling(max_tokens=output, ignore_eos=True))
            dice.choice(made).submit(call, sink)
        wall, cpu = time.monotonic() - begun, time.process_time() - used
        steps = sum(engine.load().steps for engine in made)
        for engine in made:
            await engine.stop()
    cuts = statistics.quantiles(late, n=100)
    print(
        f"live: {engines} engines in one process, {number} requests, {done} done, {steps} steps in {wall:.1f} s "
        f"({cpu / wall:.0%} of a core); late p50 {cuts[49] * 1e3:.1f} ms, p99 {cuts[98] * 1e3:.1f} ms"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=("virtual", "live"), default="virtual")
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    form = "plain Python" if core.COMPILED is None else "compiled"
    print(f"core: {form}; load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    if options.what == "virtual":
        virtual(options.seconds)
    else:
        uvloop.run(live(options.seconds))


if __name__ == "__main__":
    main()
