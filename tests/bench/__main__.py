"""``python -m tests.bench``: what the gateway costs, and how fast a cancel arrives.

Real processes throughout, with the scripted engine in the workers: it does nothing but tokens at a pace, so what is
left is ours. CPU time is read from /proc; figures are medians over repetitions, which are interleaved.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop

from tests.bench.accept import accept_to_dispatch
from tests.bench.cancel import cancel
from tests.bench.cpu import calibration_ns
from tests.bench.direct import ttft
from tests.bench.report import Report
from tests.bench.rows import (
    Figures,
    plain_calls,
    stream_own_clocks,
    stream_paced,
    stream_saturated,
    warm_up,
)
from tests.bench.stack import Stack, running_stack

STEP_S = 0.02


ROWS: dict[str, Callable[[Stack], Awaitable[Figures]]] = {
    "stream_paced": stream_paced,
    "stream_own_clocks": stream_own_clocks,
    "stream_saturated": stream_saturated,
    "plain_calls": plain_calls,
    "ttft": ttft,
    "accept_to_dispatch": accept_to_dispatch,
    "cancel_decode": lambda stack: cancel(stack, "decode"),
    "cancel_prefill": lambda stack: cancel(stack, "prefill"),
    "cancel_plain": lambda stack: cancel(stack, "plain"),
}


async def measure(names: list[str], repetitions: int, workers: int, *, secure: bool, routers: int = 0) -> Report:
    report = Report()
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with running_stack(workers, secure=secure, routers=routers, delay_s=STEP_S, max_num_seqs=64) as stack:
        await warm_up(stack)
        for repetition in range(repetitions):
            report.add("calibration", {"loop_ns": await asyncio.to_thread(calibration_ns)})
            for name in names:
                figures = await ROWS[name](stack)
                report.add(name, figures)
                first = next(iter(figures.items()))
                print(f"{repetition + 1}/{repetitions} {name}: {first[0]} {first[1]:.2f}", file=sys.stderr)
    return report


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__.partition("\n")[0])
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"which rows to run: {', '.join(ROWS)} (default: all)")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--tls", action="store_true", help="HTTPS to the gateway, mutual TLS inside")
    parser.add_argument("--routers", type=int, default=0, help="routers that are processes of their own")
    parser.add_argument("--json", type=Path, help="write every figure of every repetition to this file")
    parser.add_argument("--gate", action="store_true", help="exit 1 if a median misses its target")
    arguments = parser.parse_args()
    if unknown := set(arguments.rows) - set(ROWS):
        parser.error(f"no row {sorted(unknown)[0]}; there are {', '.join(ROWS)}")
    names = [name for name in ROWS if not arguments.rows or name in arguments.rows]
    try:
        report = uvloop.run(
            measure(names, arguments.repetitions, arguments.workers, secure=arguments.tls, routers=arguments.routers)
        )
    except asyncio.CancelledError:
        return 143
    print(report.table())
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs", file=sys.stderr)
    if arguments.json:
        report.save(arguments.json)
    missed = report.missed()
    for line in missed:
        print(f"missed: {line}", file=sys.stderr)
    return 1 if arguments.gate and missed else 0


if __name__ == "__main__":
    sys.exit(main())
