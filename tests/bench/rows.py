"""What is measured: one function per row, each returning its figures by name."""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.bench.client import Connection, chat_request, connect, prompt_text
from tests.bench.cpu import CpuMeter
from tests.bench.stack import Stack

Figures = dict[str, float]

STAGGER_S = 0.023


@dataclass(slots=True)
class Tally:
    """What came back. ``failures`` counts by status or exception name; ``short`` counts streams without [DONE]."""

    answers: int = 0
    short: int = 0
    events: int = 0
    ttft_s: list[float] = field(default_factory=list)
    total_s: list[float] = field(default_factory=list)
    gaps_s: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)

    def take(self, connection: Connection, status: int, stream: bool) -> None:
        if status != 200:
            self.failures[str(status)] += 1
            return
        self.answers += 1
        self.total_s.append(connection.last - connection.sent)
        if stream:
            self.short += not connection.done
            self.events += len(connection.arrivals)
            self.ttft_s.append(connection.first - connection.sent)
            times = connection.arrivals[1:]
            self.gaps_s.extend(after - before for before, after in itertools.pairwise(times))

    def must_be_whole(self) -> None:
        if self.failures or self.short:
            raise RuntimeError(f"answers failed: {dict(self.failures)}, cut short: {self.short}")


async def closed_loop(
    stack: Stack, requests: Callable[[int], bytes], *, connections: int, total: int, stream: bool, stagger_s: float = 0
) -> Tally:
    """``total`` requests over ``connections`` connections, each sending its next when the last is answered."""
    tally, numbers = Tally(), iter(range(total))

    async def drive(index: int) -> None:
        await asyncio.sleep(index * stagger_s)
        connection = await connect(stack)
        for number in numbers:
            if not connection.open:
                connection = await connect(stack)
            try:
                async with asyncio.timeout(60):
                    status = await connection.send(requests(number))
            except (ConnectionError, TimeoutError) as error:
                tally.failures[type(error).__name__] += 1
                connection = await connect(stack)
            else:
                tally.take(connection, status, stream)
        if connection.open:
            connection.abort()

    await asyncio.gather(*(drive(index) for index in range(connections)))
    tally.must_be_whole()
    return tally


async def warm_up(stack: Stack) -> None:
    """Caches, connections and compiled paths, of both kinds of call."""
    for stream in (True, False):
        await closed_loop(stack, _fast(stack, stream=stream, tokens=16), connections=16, total=200, stream=stream)


async def stream_paced(stack: Stack, *, streams: int = 32, rounds: int = 3, tokens: int = 128) -> Figures:
    """``streams`` at the engine's common step (20 ms): what one chunk costs while the gateway is mostly idle."""

    def request(number: int) -> bytes:
        return chat_request(stack, prompt_text(number), stream=True, max_tokens=tokens, ignore_eos=True)

    return await _streams(stack, request, streams, rounds, tokens)


async def stream_own_clocks(stack: Stack, *, streams: int = 32, rounds: int = 3, tokens: int = 128) -> Figures:
    """The same, each stream on a clock of its own: no two chunks share a frame."""

    def request(number: int) -> bytes:
        script = f'{{"script": {{"tokens": {tokens}, "delay_s": 0.02}}}}'
        return chat_request(stack, script + prompt_text(number, 140), stream=True, max_tokens=tokens)

    return await _streams(stack, request, streams, rounds, tokens)


async def _streams(stack: Stack, request: Callable[[int], bytes], streams: int, rounds: int, tokens: int) -> Figures:
    gateway, workers = CpuMeter([stack.gateway_pid]), CpuMeter(stack.worker_pids)
    routers = CpuMeter(stack.router_pids)
    started = time.monotonic()
    tally = await closed_loop(
        stack, request, connections=streams, total=streams * rounds, stream=True, stagger_s=STAGGER_S
    )
    elapsed = time.monotonic() - started
    chunks = tally.answers * tokens
    return {
        "gateway_cpu_ms_per_1000_chunks": gateway.used() * 1e6 / chunks,
        "worker_cpu_ms_per_1000_chunks": workers.used() * 1e6 / chunks,
        **({"router_cpu_ms_per_1000_chunks": routers.used() * 1e6 / chunks} if stack.router_pids else {}),
        "chunks_per_s": chunks / elapsed,
        "events_per_token": tally.events / chunks,
        "gap_p50_ms": statistics.median(tally.gaps_s) * 1e3,
        "gap_p99_ms": quantile(tally.gaps_s, 0.99) * 1e3,
    }


async def stream_saturated(stack: Stack, *, streams: int = 32, total: int = 256, tokens: int = 128) -> Figures:
    """Streams without any pause: how many chunks a second, on whatever cores there are."""
    gateway = CpuMeter([stack.gateway_pid])
    started = time.monotonic()
    tally = await closed_loop(
        stack, _fast(stack, stream=True, tokens=tokens), connections=streams, total=total, stream=True
    )
    chunks = tally.answers * tokens
    return {
        "chunks_per_s": chunks / (time.monotonic() - started),
        "gateway_cpu_ms_per_1000_chunks": gateway.used() * 1e6 / chunks,
        "events_per_token": tally.events / chunks,
    }


async def plain_calls(stack: Stack, *, connections: int = 32, total: int = 2000, tokens: int = 8) -> Figures:
    """Small answers in one piece: authentication, validation, template, tokeniser, limits and the way back."""
    gateway, workers = CpuMeter([stack.gateway_pid]), CpuMeter(stack.worker_pids)
    started = time.monotonic()
    tally = await closed_loop(
        stack, _fast(stack, stream=False, tokens=tokens), connections=connections, total=total, stream=False
    )
    return {
        "gateway_cpu_ms_per_1000_calls": gateway.used() * 1e6 / tally.answers,
        "worker_cpu_ms_per_1000_calls": workers.used() * 1e6 / tally.answers,
        "calls_per_s": tally.answers / (time.monotonic() - started),
        "p50_ms": statistics.median(tally.total_s) * 1e3,
        "p99_ms": quantile(tally.total_s, 0.99) * 1e3,
    }


def _fast(stack: Stack, *, stream: bool, tokens: int) -> Callable[[int], bytes]:
    """Requests whose answers come without a pause; 64 different prompts."""
    script = f'{{"script": {{"tokens": {tokens}, "delay_s": 0}}}}'
    ready = [
        chat_request(stack, script + prompt_text(number, 140), stream=stream, max_tokens=tokens) for number in range(64)
    ]
    return lambda number: ready[number % len(ready)]


def quantile(values: list[float], fraction: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(fraction * len(ordered)))]
