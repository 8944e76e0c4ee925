"""What all checks cost: from the first byte of a request to the router, with them and without.

Both are the same gateway in a process of its own, whose router answers at once. With them: the key, the schema, limits
of key and tenant, template, tokenizer, context, reservation and settling. Without: JSON, and the call is submitted.
"""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import hashlib
import json
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.bench.client import chat_request, connect, prompt_text
from tests.bench.cpu import CpuMeter
from tests.bench.rows import Figures, closed_loop
from tests.bench.stack import ROOT, Stack

KEY = "sk-inferdeck-bench"
TOKENS = 8


async def accept_to_dispatch(stack: Stack, *, total: int = 2000, connections: int = 4) -> Figures:
    """Times in microseconds, CPU of the gateway's process in milliseconds for 1,000 plain calls. The two take turns, in
    parts, so that both meet the same disturbances."""
    times: dict[str, list[float]] = {"on": [], "off": []}
    cpu_s = dict.fromkeys(times, 0.0)
    async with _gateway(stack, "on") as on, _gateway(stack, "off") as off:
        for part in range(5):
            for name, server in (("on", on), ("off", off)):
                found, used = await _part(server, total // 5 if part else total // 10, connections)
                if part:  # the first one warms up
                    times[name] += found
                    cpu_s[name] += used
    counted = len(times["on"])
    figures = {f"{name}_p50_us": statistics.median(times[name]) * 1e6 for name in times}
    figures |= {f"{name}_cpu_ms_per_1000_calls": cpu_s[name] * 1e6 / counted for name in times}
    return figures | {
        "ratio_p50": figures["on_p50_us"] / figures["off_p50_us"],
        "ratio_cpu": cpu_s["on"] / cpu_s["off"],
    }


@dataclasses.dataclass(frozen=True, slots=True)
class _Server:
    stack: Stack
    process: asyncio.subprocess.Process

    async def report(self) -> list[float]:
        """The times since the last report."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(b"\n")
        found: list[float] = json.loads(await self.process.stdout.readline())
        return found


async def _part(server: _Server, total: int, connections: int) -> tuple[list[float], float]:
    stack = server.stack
    ready = [
        chat_request(stack, prompt_text(number, 400), stream=False, max_tokens=TOKENS, user="ann")
        for number in range(64)
    ]
    await server.report()
    meter = CpuMeter([stack.gateway_pid])
    await closed_loop(stack, lambda number: ready[number % 64], connections=connections, total=total, stream=False)
    used = meter.used()
    return await server.report(), used


@asynccontextmanager
async def _gateway(stack: Stack, checks: str) -> AsyncIterator[_Server]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.bench.accept", checks),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=2**24,
        cwd=ROOT,
    )
    try:
        assert process.stdout is not None
        port = int(await process.stdout.readline())
        own = dataclasses.replace(stack, port=port, host="127.0.0.1", key=KEY, gateway_pid=process.pid, tls=None)
        (await connect(own)).abort()
        yield _Server(own, process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        async with asyncio.timeout(30):
            await process.wait()


async def _serve(checks: str) -> None:
    """Prints its port, then the times since the last line for each line that it reads, until there is no more."""
    from prometheus_client import CollectorRegistry

    from control_plane.contracts.grant import Grant
    from control_plane.contracts.policy import Limits
    from control_plane.gateway.options import GatewayOptions
    from control_plane.gateway.server import Gateway
    from tests.bench.stack import MODEL
    from tests.integration.gateway.rig import PlayedRouter, say
    from tests.unit.gateway.fakes import Submitted
    from tests.unit.gateway.tokenizers import bundle

    times: list[float] = []
    limits = Limits(rpm=10**9, tpm=10**12, concurrency=10**6)
    grant = Grant("key-1", "acme", limits=limits, tenant_limits=limits, models=(MODEL,))
    loop = asyncio.get_running_loop()

    known = {hashlib.sha256(KEY.encode()).digest(): grant}

    class Keys:
        def grants(self) -> dict[bytes, Grant]:
            return known

    class Instant(PlayedRouter):
        def heard(self, submitted: Submitted) -> None:
            times.append(time.monotonic() - submitted.call.arrival_mono)
            del self.submitted[:-1]
            loop.call_soon(say, submitted, ["x"] * TOKENS)

    if checks == "off":
        _without_checks()
    router = Instant({MODEL: bundle(max_context=4096)})
    gateway = Gateway(GatewayOptions(port=0), Keys(), registry=CollectorRegistry())
    stop = asyncio.Event()
    served = asyncio.create_task(gateway.serve(router, stop))
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    print(gateway.port, flush=True)
    while await lines.readline():
        print(json.dumps(times), flush=True)
        times.clear()
        gc.collect()
    stop.set()
    await served


def _without_checks() -> None:
    """Every caller is let in, and what it sends is submitted with the same few tokens for a prompt."""
    from control_plane.contracts.grant import Grant
    from control_plane.gateway import route_table
    from control_plane.gateway.auth import KeyGate
    from control_plane.gateway.calls import Call
    from control_plane.gateway.desk import Desk
    from control_plane.gateway.prompt.models import Waiter
    from control_plane.gateway.schema.generation import Generation

    grant, ids = Grant("key-1"), list(range(10, 110))

    def take(desk: Desk, exchange: Any, api: Any) -> None:
        body = json.loads(exchange.take_body())
        generation = Generation(body["model"], {}, body["max_tokens"], messages=body["messages"])
        prompt = desk.prompts.get(generation.model)
        if prompt is None:
            again = Waiter(lambda _: take_again(desk, exchange, api, generation), exchange.arrival_mono + 30)
            desk.prompts.wait(generation.model, again)
        else:
            take_again(desk, exchange, api, generation)

    def take_again(desk: Desk, exchange: Any, api: Any, generation: Generation) -> None:
        call = Call(desk, exchange, generation, api)
        desk.active[exchange.request_id] = call
        prompt = desk.prompts.get(generation.model)
        assert prompt is not None
        assert generation.max_tokens is not None
        call._dispatch(prompt, ids, generation.max_tokens)

    KeyGate.check = lambda *_: grant  # type: ignore[method-assign]
    route_table.take = take


if __name__ == "__main__":
    import uvloop

    uvloop.run(_serve(sys.argv[1]))
