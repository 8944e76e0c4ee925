"""The steps of the tour. Each does one thing, shows it, and checks that it was done."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from itertools import pairwise
from random import Random
from urllib.parse import urlsplit

from console import figures
from console.completion import Answer
from console.facts import base_url
from console.launch import ControlPlane, Progress, wait_until_ready
from console.load.plan import Plan
from console.load.prompts import words
from console.load.report import summary
from console.load.runner import Run
from console.load.shape import Length
from console.load.tally import quantiles
from console.plain.resources import RESOURCES
from console.plain.table import table
from console.plain.waterfall import meter
from console.processes import ended
from console.stopping import stop
from console.text import literal, pad, width
from console.tour.stage import ROOM, Stage, StepFailed, check, idle, used_blocks, worker_of
from control_plane.contracts.fleet import RequestPhase, RequestView, Snapshot, WorkerView
from control_plane.contracts.worker_spec import alive

QUESTION = "Explain in one short paragraph why the sky is blue."
ANSWER_TOKENS = 32
STREAMS = 8
DRAIN_S = 180.0
HELD_TOKENS = 16
"""Tokens of the long answer before it is cancelled: enough to hold a KV block."""

Seen = list[tuple[str, float]]


async def bring_up(stage: Stage, progress: Progress) -> None:
    """The control plane, a gateway and two workers, in a home of their own on free ports."""
    stage.own = ControlPlane.start(stage.home, config=stage.home.path / "tour.toml", detached=False)
    stage.note_process("control plane", stage.own.process.pid)
    state, snapshot = await wait_until_ready(stage.home, progress=progress, own=stage.own)
    check(len(snapshot.workers) == 2, f"two workers were wanted, there are {len(snapshot.workers)}")
    for worker in snapshot.workers:
        stage.note_process(worker.id, worker.pid)
        stage.note_process(f"{worker.id}'s engine", worker.engine_pid)
        stage.row(worker.id, _about(worker))
    for gateway in snapshot.gateways:
        stage.note_process(gateway.id, gateway.pid)
        stage.row(f"gateway {gateway.id}", base_url(gateway.url))
    check(bool(state.gateway_urls), "no gateway says where it is")


def _about(worker: WorkerView) -> str:
    info = worker.info
    if info is None or info.model is None:
        raise StepFailed(f"{worker.id} says nothing of its model")
    return (
        f"{info.engine} {info.engine_version} on {info.device} · {info.model.name} · "
        f"{info.model.total_blocks} KV blocks of {info.model.block_size} tokens · "
        f"loaded in {figures.seconds(info.load_s)}"
    )


async def stream_an_answer(stage: Stage) -> None:
    """A streamed answer, with the time at which each piece of text came, and the platform's own view of it."""
    seen: Seen = []
    body = {"messages": [{"role": "user", "content": QUESTION}], "max_tokens": ANSWER_TOKENS, "temperature": 0}
    answer = await stage.ask(body, lambda text, at: seen.append((text, at)))
    check(answer.ok, f"the answer failed: {answer.error_code} {answer.error_message}")
    stage.line(f"> {QUESTION}")
    for line in _timed(seen, answer.started):
        stage.line(line)
    tokens = answer.output_tokens
    check(0 < len(seen) <= tokens <= ANSWER_TOKENS, f"{len(seen)} pieces of text do not fit the usage: {answer.usage}")
    stage.row(
        "stopwatch",
        f"TTFT {figures.seconds(answer.ttft_s)} · {_itl(answer)} · {tokens} tokens ({answer.finish_reason})",
    )
    after = await stage.until(lambda s: _last_ended(s) is not None, "the platform keeps no record of the request")
    request = _last_ended(after)
    assert request is not None
    stage.row(
        "platform",
        f"TTFT {figures.seconds(request.ttft_s)} · ITL p50 {figures.seconds(request.itl_p50_s or None)} · "
        f"{request.output_tokens} tokens · on {request.worker_id}",
    )
    check(request.output_tokens == tokens, "the platform counted other tokens than the answer's usage says")
    measured = answer.ttft_s or 0.0
    check(abs(request.ttft_s - measured) <= max(0.05, measured / 4), "the platform's TTFT is not the client's")


def _itl(answer: Answer) -> str:
    low, high = quantiles(answer.gaps_s, 0.5, 0.99)
    return f"ITL p50 {figures.seconds(low)} p99 {figures.seconds(high)}"


def _timed(seen: Seen, started: float) -> list[str]:
    """Each piece of text under the milliseconds since the one before, as many beside each other as there is room."""
    times = [started, *(at for _, at in seen)]
    cells = []
    for (text, _), (before, at) in zip(seen, pairwise(times), strict=True):
        label, shown = f"+{(at - before) * 1e3:.0f}", literal(text).strip() or "·"
        room = max(width(label), width(shown)) + 2
        cells.append((pad(label, room), pad(shown, room)))
    lines: list[str] = []
    row: list[tuple[str, str]] = []
    used = 0
    for label, shown in [*cells, ("", "")]:
        if row and (not shown or used + len(label) > ROOM - 3):
            lines += ["".join(part[0] for part in row).rstrip() + " ms", "".join(part[1] for part in row).rstrip()]
            row, used = [], 0
        row.append((label, shown))
        used += len(label)
    return lines


def _last_ended(snapshot: Snapshot) -> RequestView | None:
    ended = [request for request in snapshot.requests if request.phase is RequestPhase.FINISHED]
    return max(ended, key=lambda request: request.arrival_unix, default=None)


async def show_the_fleet(stage: Stage) -> None:
    """The workers as the platform sees them, at rest."""
    snapshot = await stage.until(idle, "the counters do not come back to zero after the answer")
    columns = [
        column for column in RESOURCES["workers"].columns(snapshot) if not column.wide and column.title != "NOTE"
    ]
    for line in table(snapshot.workers, columns, ROOM - 3).lines:
        stage.line(line)
    check(all(pool.ready == pool.desired for pool in snapshot.pools), "not every worker is ready")


async def drain_under_load(stage: Stage) -> None:
    """Streams run all the time; none may be cut, and none may go to a worker that is being drained."""
    snapshot = await stage.snapshot()
    first, second = sorted(worker.id for worker in snapshot.workers)
    plan = Plan(
        snapshot.models[0].name,
        concurrency=STREAMS,
        duration_s=0,
        prompt=Length(20, 60),
        output=Length(24, 48),
        ignore_eos=True,
    )
    run = Run(plan, stage.endpoint, [stage.key])
    going = asyncio.create_task(run.go())
    try:
        busy = await stage.until(
            lambda s: all(worker.in_flight >= 2 for worker in s.workers), "the load does not reach both workers"
        )
        stage.row("load", ", ".join(f"{worker.in_flight} streams on {worker.id}" for worker in busy.workers))
        await _drain(stage, first)
        before = run.tally.started
        later = await stage.until(lambda _: run.tally.started >= before + STREAMS, "no new stream was started")
        drained = worker_of(later, first)
        check(
            drained.cordoned and drained.in_flight == 0, f"{first} still gets requests: {drained.in_flight} in flight"
        )
        stage.row("meanwhile", f"{run.tally.started - before} new streams, all on {second}")
        async with stage.client() as client:
            await client.uncordon(first)
        await stage.until(lambda s: worker_of(s, first).in_flight > 0, f"{first} gets no requests after the uncordon")
        stage.row("uncordon", f"{first} takes new requests again")
        run.finish()
        await going
    finally:
        going.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await going
    check(run.tally.ok == run.tally.started, f"streams failed: {dict(run.tally.errors)}")
    data = summary(run, ["tour"])
    ttft, itl = figures.seconds(data["ttft_s"]["p50"]), figures.seconds(data["itl_s"]["p50"])
    speed = figures.rate(data["per_second"]["output_tokens"])
    stage.row(
        "streams", f"{run.tally.ok} of {run.tally.started} ended well · {speed} tok/s · TTFT p50 {ttft} · ITL p50 {itl}"
    )


async def _drain(stage: Stage, worker_id: str) -> None:
    began = time.monotonic()
    counts: list[int] = []
    done = False
    async with stage.client() as client, contextlib.aclosing(client.drain(worker_id, timeout_s=DRAIN_S)) as steps:
        async for progress in steps:
            if not counts or counts[-1] != progress.in_flight:
                counts.append(progress.in_flight)
            done = progress.done
            if done or progress.timed_out:
                break
    check(done and counts[-1] == 0, f"{worker_id} did not drain: {counts} in flight")
    took = figures.seconds(time.monotonic() - began)
    stage.row("drain", f"{worker_id} cordoned; in flight {' → '.join(map(str, counts))} in {took}")


async def cancel_a_request(stage: Stage) -> None:
    """A long answer, cancelled by an operator in the middle: its client is told, and its KV blocks are free again."""
    before = await stage.until(idle, "the counters do not come back to zero after the load")
    holding = asyncio.Event()
    pieces = 0

    def heard(text: str, at: float) -> None:
        nonlocal pieces
        pieces += 1
        if pieces >= HELD_TOKENS:
            holding.set()

    body = {
        "messages": [{"role": "user", "content": f"Tell a very long story about {words(200, Random(0))}."}],
        "max_tokens": 600,
        "ignore_eos": True,
    }
    call = asyncio.create_task(stage.ask(body, heard))
    reached = asyncio.create_task(holding.wait())
    try:
        await asyncio.wait((call, reached), return_when=asyncio.FIRST_COMPLETED)
        check(not call.done(), "the long answer ended before it could be cancelled")
        running = await stage.until(
            lambda s: used_blocks(s) > 0 and len(_active(s)) == 1, "the request holds no KV blocks"
        )
        [request] = _active(running)
        _show_blocks(stage, "running", running, request)
        async with stage.client() as client:
            at = time.monotonic()
            result = await client.cancel(request.id)
        check(result.changed, f"the cancel changed nothing: {result.message}")
        answer = await call
    finally:
        for task in (call, reached):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
    freed = await stage.until(idle, "its KV blocks were not freed")
    _show_blocks(stage, "cancelled", freed, request)
    told = answer.error_code or "no error"
    stage.row(
        "client", f"{pieces} tokens, then {told}, {figures.seconds(max(0.0, answer.ended - at))} after the cancel"
    )
    check(told == "request_cancelled", f"the client was told {told}")
    check(used_blocks(freed) == used_blocks(before), "not every block came back")


def _active(snapshot: Snapshot) -> list[RequestView]:
    return [request for request in snapshot.requests if request.phase.active]


def _show_blocks(stage: Stage, label: str, snapshot: Snapshot, request: RequestView) -> None:
    load = worker_of(snapshot, request.worker_id).load
    assert load is not None
    bar = meter(load.used_blocks / load.total_blocks if load.total_blocks else 0.0, 20)
    stage.row(
        label,
        f"{bar} {load.used_blocks} of {load.total_blocks} KV blocks on {request.worker_id} · {load.running} running",
    )


async def shut_down(stage: Stage) -> None:
    """Everything ends in order; no process is left, and no port listens."""
    state = stage.state
    snapshot = await stage.snapshot()
    for worker in snapshot.workers:
        stage.note_process(worker.id, worker.pid)
        stage.note_process(f"{worker.id}'s engine", worker.engine_pid)
    gateways = [urlsplit(url) for url in state.gateway_urls]
    addresses = [state.api_address, *(f"{url.hostname}:{url.port}" for url in gateways)]
    addresses += [worker.address for worker in snapshot.workers if worker.address]
    await stop(stage.home, grace_s=5.0, say=stage.line)
    left = [name for name, process in stage.processes.items() if not await _gone(*process)]
    check(not left, f"still running: {', '.join(left)}")
    listening = [address for address in addresses if _listens(address)]
    check(not listening, f"still listening: {', '.join(listening)}")
    stage.row("gone", f"{len(stage.processes)} processes, {figures.plural(len(addresses), 'port')}")


async def _gone(pid: int, ticks: int) -> bool:
    """Whether the process has ended. One that was killed may need a moment to give its memory back."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(2.0):
            await ended(pid, ticks)
    return not alive(pid, ticks)


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=2.0):
            return True
    except OSError:
        return False
