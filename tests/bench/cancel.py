"""How long after a client has gone the engine knows: both ends read the same monotonic clock."""

from __future__ import annotations

import asyncio
import json
import statistics
import uuid
from pathlib import Path
from typing import Any

from tests.bench.client import chat_request, connect, prompt_text
from tests.bench.rows import Figures
from tests.bench.stack import Stack

SPACING_S = 0.05
SETTLE_S = 0.4
TOKENS_BEFORE_LEAVING = 5
TIMEOUT_S = 15.0

_CASES: dict[str, tuple[bool, dict[str, Any]]] = {
    "decode": (True, {"tokens": 1500, "delay_s": 0.02}),
    "prefill": (True, {"tokens": 8, "prefill_s": 30}),
    "plain": (False, {"tokens": 1500, "delay_s": 0.02}),
}


async def cancel(stack: Stack, case: str, *, clients: int = 20) -> Figures:
    """Clients that go away in mid-stream, before the first token, or while a plain call is pending."""
    stream, script = _CASES[case]
    marks = [uuid.uuid4().hex for _ in range(clients)]
    leaving = (_go_away(stack, index, stream, {**script, "mark": mark}) for index, mark in enumerate(marks))
    gone = dict(zip(marks, await asyncio.gather(*leaving), strict=True))
    seen = await _aborts(stack.trace, set(marks))
    late = [seen[mark] - left for mark, left in gone.items()]
    return {"p50_ms": statistics.median(late) * 1e3, "max_ms": max(late) * 1e3}


async def _go_away(stack: Stack, index: int, stream: bool, script: dict[str, Any]) -> float:
    """When the client left. A client in decode leaves after a few tokens."""
    await asyncio.sleep(index * SPACING_S)
    text = json.dumps({"script": script}) + prompt_text(index, 100)
    connection = await connect(stack)
    answer = connection.send(chat_request(stack, text, stream=stream, max_tokens=1500))
    answer.add_done_callback(lambda done: done.cancelled() or done.exception())
    await asyncio.sleep(SETTLE_S)
    if stream and "prefill_s" not in script:
        async with asyncio.timeout(TIMEOUT_S):
            await connection.events(TOKENS_BEFORE_LEAVING)
    if answer.done():
        raise RuntimeError(f"the answer ended before its client left: {answer}")
    return connection.abort()


async def _aborts(trace: Path, marks: set[str]) -> dict[str, float]:
    """When the engine was told to abort each. Raises TimeoutError if some never are."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            lines = [json.loads(line) for line in _read(trace).splitlines() if line.endswith("}")]
            aborts = {line["mark"]: line["mono"] for line in lines if line["event"] == "abort"}
            if marks <= aborts.keys():
                return aborts
            await asyncio.sleep(0.05)


def _read(trace: Path) -> str:
    return trace.read_text()
