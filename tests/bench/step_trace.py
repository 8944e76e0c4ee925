"""``python -m tests.bench.step_trace``: what the full step trace costs a real vLLM, as a ratio of tokens/s.

One engine, sixteen sequences in its batch all the time; the trace is switched between full and off from round to
round, in an order that gives neither the better half of a drift. Every pair of neighbours gives one ratio: of tokens/s,
and of tokens per CPU second of the engine and its worker together, which other work on the machine disturbs less. With
no watcher, as the aim is stated; ``--watch`` adds one that takes every step as a console does.
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
from pathlib import Path
from typing import NamedTuple

from control_plane.contracts.step import TraceMode
from tests.real_vllm.asker import TIMEOUT_S, Asker
from tests.real_vllm.conftest import real_spec
from workers.engine.vllm_engine import VllmEngine
from workers.load import process_use
from workers.step_watch import StepWatch

BATCH = 16
PROMPT = "The quick brown fox jumps over the lazy dog. "


class Rate(NamedTuple):
    """Tokens a second, of the clock and of the CPU."""

    wall: float
    cpu: float


async def one_round(asker: Asker, tokens: int) -> Rate:
    """A full batch, from the moment that all of it decodes to its end."""
    replies = [asker.submit(f"{number}. {PROMPT}", max_tokens=tokens, ignore_eos=True)[1] for number in range(BATCH)]
    await asyncio.gather(*(reply.begun.wait() for reply in replies))
    pids = (os.getpid(), *asker.engine.pids())
    begun, used, before = time.perf_counter(), process_use(pids).cpu_s, asker.engine.load().generated_tokens
    await asyncio.gather(*(reply.end(TIMEOUT_S) for reply in replies))
    made = asker.engine.load().generated_tokens - before
    return Rate(made / (time.perf_counter() - begun), made / (process_use(pids).cpu_s - used))


async def measure(pairs: int, tokens: int, *, watched: bool) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        engine = VllmEngine(real_spec(Path(folder)))
        watch = StepWatch(engine)
        try:
            asker = Asker(engine, await engine.start())
            reader = asyncio.create_task(_read(watch)) if watched else None
            await one_round(asker, 16)
            rates: dict[TraceMode, list[Rate]] = {TraceMode.OFF: [], TraceMode.FULL: []}
            for pair in range(pairs):
                order = (TraceMode.OFF, TraceMode.FULL) if pair % 2 else (TraceMode.FULL, TraceMode.OFF)
                for mode in order:
                    await engine.set_trace(mode, 1)
                    rates[mode].append(await one_round(asker, tokens))
                off, full = rates[TraceMode.OFF][-1], rates[TraceMode.FULL][-1]
                print(
                    f"pair {pair + 1}: off {off.wall:.1f} full {full.wall:.1f} tok/s, {full.wall / off.wall:.4f}; "
                    f"per CPU second {full.cpu / off.cpu:.4f}",
                    file=sys.stderr,
                )
            if reader is not None:
                reader.cancel()
        finally:
            await engine.stop()
    both = list(zip(rates[TraceMode.OFF], rates[TraceMode.FULL], strict=True))
    ratios = [full.wall / off.wall for off, full in both]
    return {
        "batch": BATCH,
        "pairs": pairs,
        "watched": watched,
        "off_tokens_per_s": round(statistics.median(rate.wall for rate in rates[TraceMode.OFF]), 1),
        "full_tokens_per_s": round(statistics.median(rate.wall for rate in rates[TraceMode.FULL]), 1),
        "cpu_ratio": round(statistics.median(full.cpu / off.cpu for off, full in both), 4),
        "ratio": round(statistics.median(ratios), 4),
        "ratio_quartiles": [round(value, 4) for value in statistics.quantiles(ratios, n=4)] if pairs > 1 else ratios,
        "steps_dropped": watch.state().dropped,
    }


async def _read(watch: StepWatch) -> None:
    async for _ in watch.frames(0, live=True):
        pass


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.step_trace", description=__doc__)
    parser.add_argument("--pairs", type=int, default=12, help="rounds with each mode")
    parser.add_argument("--tokens", type=int, default=64, help="tokens of each sequence in a round")
    parser.add_argument("--watch", action="store_true", help="with a watcher that takes every step")
    options = parser.parse_args()
    print(json.dumps(asyncio.run(measure(options.pairs, options.tokens, watched=options.watch))))


if __name__ == "__main__":
    main()
