"""``python -m tests.bench.replicas``: what a streamed chunk costs through a router of its own, against one inside.

Two stacks at once, alike but for that, of real processes with scripted engines; they take turns, so that both meet the
same disturbances. CPU time of gateway and router together is what is compared.
"""

from __future__ import annotations

import argparse
import statistics
import sys

import uvloop

from tests.bench.__main__ import STEP_S
from tests.bench.rows import Figures, stream_paced, warm_up
from tests.bench.stack import running_stack


async def compare(repetitions: int, routers: int) -> dict[str, list[Figures]]:
    found: dict[str, list[Figures]] = {"inside": [], "standalone": []}
    async with (
        running_stack(2, delay_s=STEP_S, max_num_seqs=64) as inside,
        running_stack(2, routers=routers, delay_s=STEP_S, max_num_seqs=64) as standalone,
    ):
        stacks = {"inside": inside, "standalone": standalone}
        for stack in stacks.values():
            await warm_up(stack)
        for _ in range(repetitions):
            for name, stack in stacks.items():
                found[name].append(await stream_paced(stack))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.replicas", description=__doc__.partition("\n")[0])
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--routers", type=int, default=1)
    arguments = parser.parse_args()
    found = uvloop.run(compare(arguments.repetitions, arguments.routers))
    medians = {
        name: {key: statistics.median(run[key] for run in runs) for key in runs[0]} for name, runs in found.items()
    }
    for name, figures in medians.items():
        for key, value in figures.items():
            print(f"{name:12} {key:34} {value:9.2f}")
    own = medians["inside"]["gateway_cpu_ms_per_1000_chunks"]
    apart = medians["standalone"]["gateway_cpu_ms_per_1000_chunks"]
    apart += medians["standalone"]["router_cpu_ms_per_1000_chunks"]
    print(
        f"gateway and router, CPU per 1,000 chunks: {own:.1f} ms inside, {apart:.1f} ms apart, ratio {apart / own:.2f}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
