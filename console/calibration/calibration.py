"""One calibration: make the calls, collect the worker's steps, fit what they cost."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Sequence

from console.calibration.sweep import WARM_UP_WORDS, sweep, warm_up
from console.client import OperatorClient
from console.http import Endpoint
from console.load.plan import Plan
from console.load.runner import Run
from control_plane.contracts.errors import Conflict, InvalidRequest, Unavailable
from control_plane.contracts.sizing.measured import Measured
from control_plane.contracts.sizing.memory import EngineSettings
from control_plane.contracts.sizing.step_cost import fit, residuals, samples_of
from control_plane.contracts.step import EngineStep, TraceMode
from control_plane.contracts.worker import ModelInfo, WorkerInfo

_LAST_STEPS_S = 10.0

Told = Callable[[str], None]
"""Hears what is about to be sent."""


class Steps:
    """The steps of a worker from now on. ``last`` is the number of the newest."""

    def __init__(self) -> None:
        self.all: list[EngineStep] = []
        self.last = 0
        self._news = asyncio.Event()

    async def follow(self, client: OperatorClient, worker_id: str, from_step: int) -> None:
        self.last = from_step - 1
        async with contextlib.aclosing(client.watch_steps(worker_id, from_step, True)) as frames:
            async for frame in frames:
                if frame.steps:
                    self.all += frame.steps
                    self.last = frame.steps[-1].step
                    self._news.set()

    async def reach(self, step: int) -> None:
        while self.last < step:
            self._news.clear()
            await self._news.wait()


async def measure(
    client: OperatorClient,
    worker_id: str,
    model: ModelInfo,
    workers: int,
    endpoint: Endpoint,
    key: str,
    told: Told,
) -> list[EngineStep]:
    """Make the calls; the steps that count. The worker's trace is full meanwhile, and as it was after.

    ``workers`` are those that share the calls. Raises Conflict for a worker without a trace, Unavailable where no call
    succeeded or the worker is gone.
    """
    before = await client.set_trace(worker_id, TraceMode.UNSPECIFIED)
    if before.unavailable:
        raise Conflict(f"worker {worker_id} tells no steps: {before.unavailable}")
    if before.mode is not TraceMode.FULL:
        await client.set_trace(worker_id, TraceMode.FULL)
    steps = Steps()
    following = asyncio.create_task(steps.follow(client, worker_id, before.step + 1))

    async def made(plan: Plan) -> int:
        """Run it; the worker's last step then is here."""
        run = Run(plan, endpoint, [key])
        working = asyncio.create_task(run.go())
        await asyncio.wait({working, following}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            working.cancel()
            await asyncio.wait({working})
        if following.done():
            following.result()
            raise Unavailable(f"worker {worker_id} tells no more steps")
        working.result()
        if not run.tally.ok:
            raise Unavailable("no call of the calibration succeeded", hint="inferdeck chat tells why")
        last = (await client.set_trace(worker_id, TraceMode.UNSPECIFIED)).step
        async with asyncio.timeout(_LAST_STEPS_S):
            await steps.reach(last)
        return last

    seed = int.from_bytes(os.urandom(3), "big")
    try:
        warm = await made(warm_up(model, workers, seed))
        longest = max((row.prompt_tokens for step in steps.all for row in step.rows), default=2 * WARM_UP_WORDS)
        plans = sweep(model, workers, seed, longest / WARM_UP_WORDS)
        calls, most = sum(plan.requests for plan in plans), max(plan.concurrency for plan in plans)
        told(f"{calls} calls in {len(plans)} parts, {most} at a time at most")
        for number, plan in enumerate(plans):
            told(f"  part {number + 1}: {plan.concurrency} at a time, prompts of {plan.prompt.high} words at most")
            await made(plan)
    finally:
        following.cancel()
        await asyncio.wait({following})
        if before.mode is not TraceMode.FULL:
            await client.set_trace(worker_id, before.mode, before.every)
    return [step for step in steps.all if step.step > warm]


def profile_from(name: str, info: WorkerInfo, steps: Sequence[EngineStep]) -> Measured:
    """Raises InvalidRequest where the steps do not tell their costs apart."""
    model = info.model
    samples = samples_of(steps)
    if model is None or not samples:
        raise InvalidRequest("the worker made no step: were its calls served by others?", param="worker")
    cost = fit(samples)
    blocks = max(step.total_blocks for step in steps)
    day = time.strftime("%Y-%m-%d", time.gmtime())
    simulated = " (simulated: nothing real was measured)" if info.engine == "sim" else ""
    return Measured(
        name=name,
        source=f"{info.engine} {info.engine_version} on {info.device}, {day}, {len(samples)} steps{simulated}",
        device=info.device.removeprefix("sim:"),
        model=model.name,
        dtype=model.dtype or "unknown",
        tensor_parallel=max(1, model.tensor_parallel),
        context=model.max_context,
        block_bytes=max(1, model.kv_bytes // (blocks + 1)),
        total_blocks=blocks,
        defaults=EngineSettings(
            max_num_batched_tokens=model.max_num_batched_tokens or 2048,
            max_num_seqs=model.max_num_seqs or 256,
            block_size=model.block_size,
        ),
        cost=cost,
        residuals=residuals(cost, samples),
    )
