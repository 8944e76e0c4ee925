"""``python -m tests.bench.neighbour``: what one caller's worst bodies do to another's stream.

Paced streams run while another connection sends the same body again and again; the gaps between their events are
compared with those while nobody else calls. Every body is as large and as many-valued as bodies may be.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable

import uvloop

from tests.bench.client import Connection, chat_request, connect, prompt_text
from tests.bench.stack import MODEL, Stack, running_stack

STREAMS = 4
TOKENS = 150
STEP_S = 0.02
_USER = '{"role":"user","content":"hi"}'


def _chat(fields: str) -> str:
    return f'{{"model":"{MODEL}","messages":[{_USER}],{fields}}}'


def _schema(inner: str) -> str:
    schema = f'{{"name":"x","schema":{{"enum":[{inner}]}}}}'
    return _chat(f'"response_format":{{"type":"json_schema","json_schema":{schema}}}')


def _tool(inner: str) -> str:
    return _chat(f'"tools":[{{"type":"function","function":{{"name":"x","parameters":{{"enum":[{inner}]}}}}}}]')


def _completion(prompt: str) -> str:
    return f'{{"model":"{MODEL}","prompt":{prompt},"max_tokens":1}}'


BODIES: dict[str, Callable[[], str]] = {
    "nobody": lambda: "",
    "small chats": lambda: _chat('"max_tokens":1'),
    "token ids": lambda: _completion("[" + "5," * 260_000 + "5]"),
    "floats": lambda: _schema("1.5e3," * 260_000 + "1"),
    "containers": lambda: _schema("[]," * 32_000 + "1"),
    "keys": lambda: _tool("{" + ",".join(f'"{number:06d}":1' for number in range(65_000)) + "}"),
    "surrogate pairs": lambda: _tool('"\\ud83d\\ude00",' * 100_000 + "1"),
    "messages": lambda: json.dumps(
        {"model": MODEL, "messages": [{"role": "user", "content": "x" * 400}] * 4096, "max_tokens": 1}
    ),
    "parts": lambda: json.dumps(
        {"model": MODEL, "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}] * 30_000}]}
    ),
    "text": lambda: _completion(json.dumps("the quick brown fox " * 100_000)),
    "escapes": lambda: _completion('"' + '\\",' * 650_000 + '"'),
    "halves of control": lambda: _completion(json.dumps("<|im_" * 400_000)),
    "log probabilities": lambda: _chat('"logprobs":true,"top_logprobs":20,"n":8,"max_tokens":40,"ignore_eos":true'),
    "biases": lambda: _chat(
        '"logit_bias":{' + ",".join(f'"{number}":1' for number in range(1024)) + '},"max_tokens":1'
    ),
}


async def _stream(stack: Stack, number: int) -> list[float]:
    """The gaps of one paced stream, in milliseconds."""
    connection = await connect(stack)
    status = await connection.send(
        chat_request(stack, prompt_text(number), stream=True, max_tokens=TOKENS, ignore_eos=True)
    )
    assert status == 200
    return [
        1000 * (after - before) for before, after in zip(connection.arrivals, connection.arrivals[1:], strict=False)
    ]


async def _disturb(stack: Stack, body: str) -> dict[int, int]:
    """Send the body until cancelled; how often each status came."""
    path = "/v1/completions" if '"prompt":' in body[:100] else "/v1/chat/completions"
    raw = body.encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {stack.key}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(raw)}\r\n\r\n"
    ).encode()
    statuses: dict[int, int] = {}
    connection: Connection | None = None
    try:
        while True:
            if connection is None or not connection.open:
                connection = await connect(stack)
            status = await connection.send(head + raw)
            statuses[status] = statuses.get(status, 0) + 1
    except asyncio.CancelledError:
        if connection is not None and connection.open:
            connection.abort()
        return statuses


async def _row(stack: Stack, name: str) -> None:
    body = BODIES[name]()
    disturbing = asyncio.create_task(_disturb(stack, body)) if body else None
    streams = await asyncio.gather(*(_stream(stack, number) for number in range(STREAMS)))
    statuses: dict[int, int] = {}
    if disturbing is not None:
        disturbing.cancel()
        statuses = await disturbing
    gaps = sorted(gap for stream in streams for gap in stream)
    p50, p99 = gaps[len(gaps) // 2], gaps[int(len(gaps) * 0.99)]
    print(f"{name:20} {len(body) / 1e6:6.2f} {p50:8.1f} {p99:8.1f} {gaps[-1]:8.1f}   {statuses or ''}", flush=True)


async def measure(names: list[str]) -> None:
    async with running_stack(1, delay_s=STEP_S, max_num_seqs=64) as stack:
        await _stream(stack, 0)
        print(f"{'beside':20} {'MB':>6} {'gap p50':>8} {'p99':>8} {'max':>8}   answers (ms)")
        for name in names:
            await _row(stack, name)
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs", file=sys.stderr)


if __name__ == "__main__":
    uvloop.run(measure(sys.argv[1:] or list(BODIES)))
