from __future__ import annotations

import os
import subprocess
import sys

import pytest

from control_plane.contracts.worker import WorkerState
from control_plane.process_use import process_use
from workers.engine.base import EngineLoad
from workers.load import LoadMeter, progress_of


class Engine:
    def __init__(self) -> None:
        self.load = EngineLoad(generated_tokens=1, prompt_tokens=1, steps=1, total_blocks=10)
        self.now = 100.0

    def meter(self) -> LoadMeter:
        return LoadMeter("instance", lambda: self.load, lambda: (), lambda: self.now)


def test_totals_do_not_count_what_came_before() -> None:
    engine = Engine()
    meter = engine.meter()
    engine.load = EngineLoad(generated_tokens=31, prompt_tokens=11, cached_tokens=4, preemptions=2, steps=8)
    load = meter.read(WorkerState.READY, finished=3)
    assert (load.generated_tokens, load.prompt_tokens, load.cached_tokens) == (30, 10, 4)
    assert (load.preemptions, load.steps, load.finished) == (2, 7, 3)


def test_rates_are_over_the_window() -> None:
    engine = Engine()
    meter = engine.meter()
    for second in range(1, 11):
        engine.now = 100.0 + second
        rate = 10 if second <= 5 else 40
        engine.load = EngineLoad(generated_tokens=engine.load.generated_tokens + rate, prompt_tokens=1)
        meter.tick()
    assert meter.read(WorkerState.READY, 0).tokens_per_s == pytest.approx(40.0)


def test_rates_fall_to_zero_when_nothing_happens() -> None:
    engine = Engine()
    meter = engine.meter()
    engine.now, engine.load = 101.0, EngineLoad(generated_tokens=100)
    meter.tick()
    assert meter.read(WorkerState.READY, 0).tokens_per_s > 0
    for second in range(2, 8):
        engine.now = 100.0 + second
        meter.tick()
    assert meter.read(WorkerState.READY, 0).tokens_per_s == 0.0


def test_usage_is_a_fraction_even_of_nothing() -> None:
    engine = Engine()
    meter = engine.meter()
    engine.load = EngineLoad(total_blocks=8, used_blocks=6)
    assert meter.read(WorkerState.READY, 0).kv_usage == 0.75
    engine.load = EngineLoad()
    assert meter.read(WorkerState.READY, 0).kv_usage == 0.0


def test_a_sample_is_news_only_when_something_counted() -> None:
    engine = Engine()
    meter = engine.meter()
    first = progress_of(meter.read(WorkerState.READY, 0))
    engine.now += 5
    assert progress_of(meter.read(WorkerState.READY, 0)) == first
    assert progress_of(meter.read(WorkerState.DRAINING, 0)) != first
    engine.load = EngineLoad(running=1)
    assert progress_of(meter.read(WorkerState.READY, 0)) != first


def test_memory_and_cpu_are_summed_over_processes() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    try:
        alone, both = process_use([os.getpid()]), process_use([os.getpid(), child.pid])
        assert alone.rss_bytes > 5_000_000
        assert both.rss_bytes > alone.rss_bytes
        assert both.cpu_s >= alone.cpu_s > 0
    finally:
        child.communicate()


def test_a_process_that_is_gone_counts_nothing() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert process_use([child.pid]).rss_bytes == 0
