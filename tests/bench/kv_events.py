"""``python -m tests.bench.kv_events``: what telling KV events costs a real vLLM, as a ratio of tokens/s.

Like ``step_trace``, and for the same reason: one engine, sixteen sequences that decode, events switched between on and
off, and only neighbours compared. A window is as many steps as a block has tokens, so that each has sixteen blocks to
tell of. A pool cannot be switched while it runs; the benchmark does that inside vLLM, where no user can.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from control_plane.process_use import process_use
from tests.bench.step_trace import BATCH, PROMPT, TimedAsker
from tests.real_vllm.asker import TIMEOUT_S
from tests.real_vllm.conftest import real_spec
from workers.engine.vllm_arguments import CPU_BLOCK_SIZE
from workers.engine.vllm_engine import VllmEngine
from workers.kv_watch import KvWatch

SKIPPED = 2


class Window(NamedTuple):
    """Steps with or without events: seconds a step, and CPU seconds of the engine and its worker."""

    events: bool
    step_s: float
    cpu_s: float


class _Parents(dict[int, int]):
    """Names a block whose parent was stored while events were off, so that its children cost what they would."""

    def get(self, key: int, default: Any = None) -> Any:
        return super().get(key, 1)


def switch(core: Any, on: bool) -> None:
    """Runs in the engine core's process."""
    core.scheduler.kv_cache_manager.block_pool.enable_kv_cache_events = on


async def one_batch(asker: TimedAsker, engine: VllmEngine, tokens: int) -> list[Window]:
    """The windows of a full batch, from the moment that all of it decodes to its end."""
    replies = [
        asker.submit(f"{number}. {PROMPT}" + " so" * 2 * number, max_tokens=tokens, ignore_eos=True)[1]
        for number in range(BATCH)
    ]
    await asyncio.gather(*(reply.begun.wait() for reply in replies))
    pids = (os.getpid(), *engine.pids())
    windows: list[Window] = []
    last = len(asker.at) + tokens - 2 * BATCH
    while len(asker.at) + CPU_BLOCK_SIZE + SKIPPED < last:
        events = bool(len(windows) % 2)
        await engine._llm.engine_core.call_utility_async("bench_switch", events)
        begun = len(asker.at) + SKIPPED
        await asker.step(begun)
        used = process_use(pids).cpu_s
        await asker.step(begun + CPU_BLOCK_SIZE)
        step_s = (asker.at[begun + CPU_BLOCK_SIZE - 1] - asker.at[begun - 1]) / CPU_BLOCK_SIZE
        windows.append(Window(events, step_s, process_use(pids).cpu_s - used))
    await asyncio.gather(*(reply.end(TIMEOUT_S) for reply in replies))
    return windows


def ratios_of(windows: list[Window]) -> list[float]:
    """Tokens/s with events ÷ without, of every window with them between two without."""
    return [
        (before.step_s + after.step_s) / 2 / window.step_s
        for before, window, after in zip(windows, windows[1:], windows[2:], strict=False)
        if window.events
    ]


async def measure(batches: int, tokens: int) -> dict[str, object]:
    from vllm.v1.engine.core import EngineCore

    EngineCore.bench_switch = switch
    with tempfile.TemporaryDirectory() as folder:
        engine = VllmEngine(real_spec(Path(folder), kv_events=True))
        watch = KvWatch(engine, "bench")
        windows: list[Window] = []
        ratios: list[float] = []
        told = 0

        async def read() -> None:
            nonlocal told
            async for frame in watch.frames(1, "bench"):
                told += sum(len(event.stored) for batch in frame.batches for event in batch.events)

        try:
            asker = TimedAsker(engine, await engine.start())
            assert engine._cache is not None
            engine._cache.translation._names = _Parents()
            reader = asyncio.create_task(read())
            for number in range(batches):
                found = await one_batch(asker, engine, tokens)
                windows += found
                ratios += ratios_of(found)
                print(f"batch {number + 1}: {statistics.median(ratios_of(found)):.4f}", file=sys.stderr, flush=True)
            reader.cancel()
        finally:
            await engine.stop()
    cpu = {on: statistics.mean(each.cpu_s for each in windows if each.events is on) for on in (False, True)}
    step = {on: statistics.median(each.step_s for each in windows if each.events is on) for on in (False, True)}
    return {
        "batch": BATCH,
        "windows": len(windows),
        "blocks_told": told,
        "off_tokens_per_s": round(BATCH / step[False], 1),
        "on_tokens_per_s": round(BATCH / step[True], 1),
        "cpu_ratio": round(cpu[False] / cpu[True], 4),
        "ratio": round(statistics.median(ratios), 4),
        "ratios": [round(value, 4) for value in sorted(ratios)],
        "unavailable": watch.unavailable,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.kv_events", description=__doc__)
    parser.add_argument("--batches", type=int, default=3, help="batches of sixteen, one after another")
    parser.add_argument("--tokens", type=int, default=512, help="tokens of each sequence")
    options = parser.parse_args()
    print(json.dumps(asyncio.run(measure(options.batches, options.tokens))))


if __name__ == "__main__":
    main()
