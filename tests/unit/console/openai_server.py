"""A scripted OpenAI endpoint: each call's answer is what the test says, byte by byte if it likes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

Script = Callable[["Call"], Awaitable[None]]


@dataclass
class Call:
    """One request, and how to answer it."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    writer: asyncio.StreamWriter

    async def raw(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def json(self, value: Any, status: int = 200) -> None:
        data = json.dumps(value).encode()
        head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
        await self.raw(head.encode() + data)

    async def error(self, status: int, code: str) -> None:
        await self.json({"error": {"message": f"no: {code}", "type": "t", "param": None, "code": code}}, status)

    async def open_stream(self) -> None:
        await self.raw(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
        )

    async def event(self, value: Any) -> None:
        data = f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n".encode()
        await self.raw(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def text(self, text: str | None, finish: str | None = None) -> None:
        delta = {} if text is None else {"content": text}
        await self.event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": None})

    async def end_stream(self, *, usage: dict[str, Any] | None = None, done: bool = True) -> None:
        if usage is not None:
            await self.event({"choices": [], "usage": usage})
        if done:
            await self.event("[DONE]")
        await self.raw(b"0\r\n\r\n")

    async def answer(self, pieces: list[str], *, delay_s: float = 0.0, finish: str = "stop") -> None:
        """A whole and right answer, streamed or not as the request asked."""
        usage = {
            "prompt_tokens": 7, "completion_tokens": len(pieces), "total_tokens": 7 + len(pieces),
            "prompt_tokens_details": {"cached_tokens": 3},
        }  # fmt: skip
        if not self.body["stream"]:
            await asyncio.sleep(delay_s * len(pieces))
            message = {"role": "assistant", "content": "".join(pieces)}
            await self.json({"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": usage})
            return
        await self.open_stream()
        await self.event(
            {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]}
        )
        for piece in pieces:
            await self.text(piece)
            if delay_s:
                await asyncio.sleep(delay_s)
        await self.text(None, finish)
        await self.end_stream(usage=usage)


@dataclass
class OpenAIServer:
    script: Script
    models: tuple[str, ...] = ("m",)
    simulated: bool = False
    url: str = ""
    calls: list[Call] = field(default_factory=list)
    connections: int = 0
    running: int = 0
    most_running: int = 0
    refuse_every: int = 0  # every n-th call is refused as overloaded; 0: none
    left: int = 0  # clients that went away before their answer was complete

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while call := await self._request(reader, writer):
                if call.path.endswith("/models"):
                    more = {"simulated": True} if self.simulated else {}
                    await call.json({"data": [{"id": name, **more} for name in self.models]})
                    continue
                self.calls.append(call)
                self.running += 1
                self.most_running = max(self.most_running, self.running)
                try:
                    if self.refuse_every and len(self.calls) % self.refuse_every == 0:
                        await call.error(503, "overloaded")
                    else:
                        await self.script(call)
                finally:
                    self.running -= 1
        except (ConnectionError, asyncio.IncompleteReadError):
            self.left += 1
        except asyncio.CancelledError:
            pass
        finally:
            writer.close()

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Call | None:
        head = await reader.readline()
        if not head:
            return None
        headers = {}
        while (line := (await reader.readline()).decode().strip()) != "":
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        return Call(head.decode().split()[1], headers, json.loads(body) if body else {}, writer)


@asynccontextmanager
async def serving(script: Script) -> AsyncIterator[OpenAIServer]:
    fake = OpenAIServer(script)
    server = await asyncio.start_server(fake.serve, "127.0.0.1", 0)
    fake.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield fake
    finally:
        server.close()
