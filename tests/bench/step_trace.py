"""``python -m tests.bench.step_trace``: what the full step trace costs a real vLLM, as a ratio of tokens/s.

One engine, sixteen sequences in its batch all the time; the trace is switched between full and off every few steps,
while they decode. A shared machine changes its speed by a tenth from one second to the next, so only neighbours are
compared: every window of steps with the trace gives one ratio, to the mean of the windows without it before and after.
With no watcher, as the aim is stated; ``--watch`` adds one that takes every step as a console does.
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
from pathlib import Path
from typing import NamedTuple

from control_plane.contracts.step import TraceMode
from control_plane.contracts.worker import Delta, ModelInfo
from control_plane.process_use import process_use
from tests.real_vllm.asker import TIMEOUT_S, Asker
from tests.real_vllm.conftest import real_spec
from workers.engine.vllm_engine import VllmEngine
from workers.step_watch import StepWatch

BATCH = 16
PROMPT = "The quick brown fox jumps over the lazy dog. "
COUNTED, SKIPPED = 6, 2


class Window(NamedTuple):
    """A few steps in one mode: seconds a step, and CPU seconds of the engine and its worker."""

    mode: TraceMode
    step_s: float
    cpu_s: float


class TimedAsker(Asker):
    """``at`` is when each step's tokens came."""

    def __init__(self, engine: VllmEngine, model: ModelInfo) -> None:
        super().__init__(engine, model)
        self.at: list[float] = []
        self._news = asyncio.Event()

    def sink(self, deltas: Sequence[Delta]) -> None:
        self.at.append(time.perf_counter())
        super().sink(deltas)
        self._news.set()

    async def step(self, number: int) -> None:
        """Until so many have come."""
        while len(self.at) < number:
            self._news.clear()
            await self._news.wait()


async def one_batch(asker: TimedAsker, tokens: int) -> list[Window]:
    """The windows of a full batch, from the moment that all of it decodes to its end."""
    replies = [asker.submit(f"{number}. {PROMPT}", max_tokens=tokens, ignore_eos=True)[1] for number in range(BATCH)]
    await asyncio.gather(*(reply.begun.wait() for reply in replies))
    pids = (os.getpid(), *asker.engine.pids())
    windows: list[Window] = []
    last = len(asker.at) + tokens - 2 * BATCH
    while len(asker.at) + COUNTED + SKIPPED < last:
        mode = (TraceMode.OFF, TraceMode.FULL)[len(windows) % 2]
        await asker.engine.set_trace(mode, 1)
        begun = len(asker.at) + SKIPPED
        await asker.step(begun)
        used = process_use(pids).cpu_s
        await asker.step(begun + COUNTED)
        step_s = (asker.at[begun + COUNTED - 1] - asker.at[begun - 1]) / COUNTED
        windows.append(Window(mode, step_s, process_use(pids).cpu_s - used))
    await asyncio.gather(*(reply.end(TIMEOUT_S) for reply in replies))
    return windows


def ratios_of(windows: Sequence[Window]) -> list[float]:
    """Tokens/s with the trace ÷ without it, of every traced window between two that are not."""
    return [
        (before.step_s + after.step_s) / 2 / window.step_s
        for before, window, after in zip(windows, windows[1:], windows[2:], strict=False)
        if window.mode is TraceMode.FULL
    ]


async def measure(batches: int, tokens: int, *, watched: bool) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        engine = VllmEngine(real_spec(Path(folder)))
        watch = StepWatch(engine)
        ratios: list[float] = []
        windows: list[Window] = []
        try:
            asker = TimedAsker(engine, await engine.start())
            reader = asyncio.create_task(_read(watch)) if watched else None
            for number in range(batches):
                found = await one_batch(asker, tokens)
                windows += found
                ratios += ratios_of(found)
                print(f"batch {number + 1}: {statistics.median(ratios_of(found)):.4f}", file=sys.stderr)
            if reader is not None:
                reader.cancel()
        finally:
            await engine.stop()
    cpu = {mode: statistics.mean(each.cpu_s for each in windows if each.mode is mode) for mode in _MODES}
    step = {mode: statistics.median(each.step_s for each in windows if each.mode is mode) for mode in _MODES}
    return {
        "batch": BATCH,
        "windows": len(windows),
        "watched": watched,
        "off_tokens_per_s": round(BATCH / step[TraceMode.OFF], 1),
        "full_tokens_per_s": round(BATCH / step[TraceMode.FULL], 1),
        "cpu_ratio": round(cpu[TraceMode.OFF] / cpu[TraceMode.FULL], 4),
        "ratio": round(statistics.median(ratios), 4),
        "ratio_quartiles": [round(value, 4) for value in statistics.quantiles(ratios, n=4)],
        "steps_dropped": watch.state().dropped,
    }


_MODES = (TraceMode.OFF, TraceMode.FULL)


async def _read(watch: StepWatch) -> None:
    async for _ in watch.frames(0, live=True):
        pass


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.step_trace", description=__doc__)
    parser.add_argument("--batches", type=int, default=6, help="batches of sixteen, one after another")
    parser.add_argument("--tokens", type=int, default=512, help="tokens of each sequence")
    parser.add_argument("--watch", action="store_true", help="with a watcher that takes every step")
    options = parser.parse_args()
    print(json.dumps(asyncio.run(measure(options.batches, options.tokens, watched=options.watch))))


if __name__ == "__main__":
    main()
