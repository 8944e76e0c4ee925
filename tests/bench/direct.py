"""The gateway's share of the time to first token: each request once through it, once straight to a worker."""

from __future__ import annotations

import asyncio
import statistics
import time

from tests.bench.client import chat_request, connect, prompt_text
from tests.bench.rows import Figures, quantile
from tests.bench.stack import Stack
from tests.worker_client import TOKENIZER, Link, worker_client

TOKENS = 4


async def ttft(stack: Stack, *, total: int = 300) -> Figures:
    """One stream at a time against an engine that answers at once. The two ways alternate, so both meet the same
    disturbances; what is told of the gateway is the difference of the medians."""
    script = f'{{"script": {{"tokens": {TOKENS}, "delay_s": 0}}}}'
    through: list[float] = []
    direct: list[float] = []
    connection = await connect(stack)
    async with worker_client(stack.worker_addresses[0]) as client, client.link("bench") as link:
        for number in range(total):
            text = script + prompt_text(number % 64, 140)
            status = await connection.send(chat_request(stack, text, stream=True, max_tokens=TOKENS))
            if status != 200:
                raise RuntimeError(f"a call was answered with {status}")
            through.append(connection.first - connection.sent)
            direct.append(await _straight(link, text))
    connection.abort()
    return {
        "added_p50_ms": (statistics.median(through) - statistics.median(direct)) * 1e3,
        "through_p50_ms": statistics.median(through) * 1e3,
        "through_p99_ms": quantile(through, 0.99) * 1e3,
        "direct_p50_ms": statistics.median(direct) * 1e3,
    }


async def _straight(link: Link, text: str) -> float:
    """Time to first token of the same prompt over the worker's own protocol."""
    prompt = TOKENIZER.encode(f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n")
    sent = time.monotonic()
    reply = await link.generate(prompt, max_tokens=TOKENS)
    await reply.begun.wait()
    first = time.monotonic()
    async with asyncio.timeout(30):
        await reply.ended.wait()
    return first - sent
