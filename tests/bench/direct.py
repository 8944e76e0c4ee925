"""The same requests without a gateway: straight to a worker, over its own protocol."""

from __future__ import annotations

import asyncio
import statistics
import time

from tests.bench.client import prompt_text
from tests.bench.rows import Figures, quantile
from tests.bench.stack import Stack
from tests.worker_client import TOKENIZER, worker_client


async def ttft_direct(stack: Stack, *, total: int = 300, tokens: int = 4) -> Figures:
    """One stream at a time: what the worker and the wire take by themselves."""
    script = f'{{"script": {{"tokens": {tokens}, "delay_s": 0}}}}'
    prompts = [
        TOKENIZER.encode(f"<|im_start|>user\n{script}{prompt_text(number, 140)}<|im_end|>\n<|im_start|>assistant\n")
        for number in range(64)
    ]
    times: list[float] = []
    async with worker_client(stack.worker_addresses[0]) as client, client.link("bench") as link:
        for number in range(total):
            sent = time.monotonic()
            reply = await link.generate(prompts[number % len(prompts)], max_tokens=tokens)
            await reply.begun.wait()
            times.append(time.monotonic() - sent)
            async with asyncio.timeout(30):
                await reply.ended.wait()
    return {"ttft_p50_ms": statistics.median(times) * 1e3, "ttft_p99_ms": quantile(times, 0.99) * 1e3}
