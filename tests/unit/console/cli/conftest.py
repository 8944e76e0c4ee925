"""An OpenAI endpoint that runs beside a command in the test's own process or another one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from tests.unit.console.openai_server import Call, OpenAIServer, serving

CHOICE = {
    "object": "model_choice",
    "asked": "auto",
    "model": "big\x1b[31m",
    "reason": "auto takes the large one, big: score 0.50 >= 0.4 = reasoning 1.00 x 0.5",
    "instead_of": None,
    "ready_workers": 2,
    "price_per_hour": 7.25,
    "threshold": 0.4,
    "score": {"total": 0.5, "parts": [{"name": "reasoning", "value": 1.0, "weight": 0.5, "found": "prove, theorem"}]},
}


async def _choose(call: Call) -> None:
    """As a gateway does, for the names that the tests use."""
    asked = call.body["messages"][-1]["content"]
    if call.body["model"] == "nope" or asked == "before the policy":
        await call.error(404, "model_not_found")
    elif call.body["model"] == "plain":
        nothing = dict.fromkeys(("reason", "instead_of", "price_per_hour", "threshold", "score"))
        await call.json(CHOICE | nothing | {"asked": "plain", "model": "plain"})
    elif call.headers.get("x-inferdeck-model") == "odd":
        await call.error(400, "invalid_value")
    else:
        await call.json(CHOICE)


@pytest.fixture
def endpoint() -> Iterator[OpenAIServer]:
    """One in a loop of its own; it repeats what it was asked last, word by word, and never ends at "forever"."""

    async def script(call: Call) -> None:
        if call.path.endswith("/route"):
            await _choose(call)
            return
        asked = call.body["messages"][-1]["content"]
        if asked == "fail":
            await call.error(503, "overloaded")
        elif asked == "missing":
            await call.error(404, "model_not_found")
        elif asked == "forever":
            await call.open_stream()
            for _ in range(10_000):
                await call.text("on ")
                await asyncio.sleep(0.01)
        else:
            words = asked.split(" ")
            await call.answer([word if number == 0 else f" {word}" for number, word in enumerate(words)], delay_s=0.001)

    started = threading.Event()
    running: list[OpenAIServer] = []
    loop = asyncio.new_event_loop()
    ending = asyncio.Event()

    async def live() -> None:
        async with serving(script) as server:
            running.append(server)
            started.set()
            await ending.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(live(),))
    thread.start()
    assert started.wait(20)
    yield running[0]
    loop.call_soon_threadsafe(ending.set)
    thread.join(20)
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
