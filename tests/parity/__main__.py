"""``python -m tests.parity --traces 1000 --seed 0``: exit 1 and the first difference, if there is one."""

from __future__ import annotations

import argparse
import os
import sys
import time

from tests.parity.difference import Compared, first_difference, minimised, readable
from tests.parity.generate import generate
from tests.parity.sim_side import SimSide


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.parity", description=__doc__)
    parser.add_argument("--traces", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="of the first trace; the others count on from it")
    parser.add_argument("--whole", action="store_true", help="show a difference as it was found, not minimised")
    parser.add_argument("--async", action="store_true", dest="ahead", help="each step is decided while one runs")
    options = parser.parse_args()
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    from tests.parity.vllm_side import VllmSide

    compared, began = Compared(), time.monotonic()
    for seed in range(options.seed, options.seed + options.traces):
        difference = first_difference(generate(seed, async_scheduling=options.ahead), VllmSide, SimSide, compared)
        if difference is not None:
            print(readable(difference if options.whole else minimised(difference, VllmSide, SimSide)))
            return 1
        done = seed - options.seed + 1
        if done % 100 == 0:
            print(f"{done} traces equal, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    print(f"{options.traces} traces equal: {compared}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
