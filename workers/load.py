"""The worker's load: the engine's counters, rates over the last seconds, memory and CPU of all its processes."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable

from control_plane.contracts.worker import Load, WorkerState
from control_plane.process_use import ProcessUse, process_use
from workers.engine.base import EngineLoad

WINDOW_S = 3.0
"""What "over the last seconds" means for rates."""


class LoadMeter:
    """Samples the engine. ``tick`` is called about twice a second, ``read`` whenever somebody asks.

    Totals count from the first tick, so what the engine did to prove itself is not in them.
    """

    def __init__(
        self,
        instance_id: str,
        engine_load: Callable[[], EngineLoad],
        pids: Callable[[], Iterable[int]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._instance_id = instance_id
        self._engine_load = engine_load
        self._pids = pids
        self._clock = clock
        self._base = engine_load()
        self._history: deque[tuple[float, int, int]] = deque()
        self._use = ProcessUse()
        self._use_at = float("-inf")
        self.tick()

    def tick(self) -> None:
        """Remember the totals for the rates; memory and CPU are read once a second."""
        now, load = self._clock(), self._engine_load()
        self._history.append((now, load.generated_tokens, load.prompt_tokens))
        while self._history[0][0] < now - WINDOW_S:
            self._history.popleft()
        if now - self._use_at >= 1.0:
            self._use = process_use((os.getpid(), *self._pids()))
            self._use_at = now

    def read(self, state: WorkerState, finished: int, sleep_level: int = 0) -> Load:
        load, base = self._engine_load(), self._base
        since, generated, prompt = self._history[0]
        elapsed = max(self._clock() - since, 1e-3)
        recent = elapsed > 0.05
        return Load(
            instance_id=self._instance_id,
            sampled_unix=time.time(),
            state=state,
            running=load.running,
            waiting=load.waiting,
            total_blocks=load.total_blocks,
            used_blocks=load.used_blocks,
            kv_usage=load.used_blocks / load.total_blocks if load.total_blocks else 0.0,
            tokens_per_s=(load.generated_tokens - generated) / elapsed if recent else 0.0,
            prompt_tokens_per_s=(load.prompt_tokens - prompt) / elapsed if recent else 0.0,
            generated_tokens=load.generated_tokens - base.generated_tokens,
            prompt_tokens=load.prompt_tokens - base.prompt_tokens,
            cached_tokens=load.cached_tokens - base.cached_tokens,
            preemptions=load.preemptions - base.preemptions,
            steps=load.steps - base.steps,
            finished=finished,
            rss_bytes=self._use.rss_bytes,
            cpu_s=self._use.cpu_s,
            sleep_level=sleep_level,
        )


def progress_of(load: Load) -> tuple[object, ...]:
    """What makes a sample worth sending: everything that counts, not the clock and not the rates."""
    return (
        load.state,
        load.running,
        load.waiting,
        load.used_blocks,
        load.generated_tokens,
        load.prompt_tokens,
        load.steps,
        load.finished,
    )
