"""A gateway on a real socket, with a router that the test plays."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import httpx
from prometheus_client import CollectorRegistry

from control_plane.contracts.call import Router, TokenizerBundle
from control_plane.contracts.errors import DropReason, InferDeckError, NotFound
from control_plane.contracts.grant import Grant
from control_plane.contracts.worker import Delta, Done, Finish, FinishReason
from control_plane.gateway.history.history import History
from control_plane.gateway.http.limits import ConnectionLimits
from control_plane.gateway.options import GatewayOptions
from control_plane.gateway.server import Gateway
from control_plane.trust.keyring import Keyring
from tests.unit.gateway.fakes import StubRouter, Submitted, until
from tests.unit.gateway.tokenizers import bundle

KEY = "sk-inferdeck-0123456789"
MODEL = "m"
CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
GENEROUS_S = 20.0
NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Https:
    """A keyring with a server's certificate, for rigs that speak TLS."""

    keyring: Keyring

    def client(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.keyring.ca))


https: ContextVar[Https | None] = ContextVar("https", default=None)
"""Whether gateways of this test are HTTPS."""


class Keys:
    """A store of keys; ``delay`` is called in the thread that reads them."""

    def __init__(self) -> None:
        self.granted: dict[str, Grant] = {KEY: Grant("key-1")}
        self.delay: Callable[[], Any] = lambda: None

    def grants(self) -> dict[bytes, Grant]:
        self.delay()
        return {hashlib.sha256(key.encode()).digest(): grant for key, grant in self.granted.items()}


class PlayedRouter(StubRouter):
    """``play`` answers each call as it comes; None leaves it to the test."""

    def __init__(self, bundles: dict[str, TokenizerBundle | InferDeckError]) -> None:
        super().__init__(bundles)
        self.play: Callable[[Submitted], None] | None = echo_words

    def heard(self, submitted: Submitted) -> None:
        if self.play is not None:
            asyncio.get_running_loop().call_soon(self.play, submitted)

    async def tokenizer_files(self, model: str) -> TokenizerBundle:
        if model not in self.bundles:
            self.asked.append(model)
            raise NotFound(f"The model {model!r} does not exist.", reason=DropReason.MODEL_NOT_FOUND, param="model")
        return await super().tokenizer_files(model)


def say(submitted: Submitted, pieces: Sequence[str], finish: FinishReason = FinishReason.STOP, cached: int = 0) -> None:
    """Answer every choice with these pieces, one token each, and end."""
    call, sink = submitted.call, submitted.sink
    total = call.sampling.n * len(pieces)
    for choice in range(call.sampling.n):
        last = choice == call.sampling.n - 1
        done = Done(len(call.prompt_token_ids), cached, total) if last else None
        end = Finish(finish, len(pieces))
        if call.stream:
            for piece in pieces:
                sink.delta(Delta(1, [5], piece, choice))
            sink.delta(Delta(1, [], "", choice, finish=end, done=done))
        else:
            sink.delta(Delta(1, [5] * len(pieces), "".join(pieces), choice, finish=end, done=done))


def echo_words(submitted: Submitted) -> None:
    """As many words as the call may have, at most eight."""
    limit = submitted.call.sampling.max_tokens
    say(submitted, [" word"] * min(limit, 8), FinishReason.LENGTH if limit <= 8 else FinishReason.STOP)


@dataclass
class Answer:
    """A response as it came over the wire."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        found = self.json["error"]
        assert set(found) == {"message", "type", "param", "code"}
        assert isinstance(found["message"], str)
        assert found["type"] in ("invalid_request_error", "server_error", "requests", "tokens")
        return dict(found)


class RawClient:
    """A TCP connection that reads responses as HTTP/1.1 has them."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self, *, head_only: bool = False) -> Answer:
        async with asyncio.timeout(GENEROUS_S):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            status_line, *lines = head.split("\r\n")[:-2]
            version, status, _ = status_line.split(" ", 2)
            assert version == "HTTP/1.1"
            headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
            if head_only:
                body = b""
            elif headers.get("transfer-encoding") == "chunked":
                body = b"".join([chunk async for chunk in self.chunks()])
            elif "content-length" in headers:
                body = await self.reader.readexactly(int(headers["content-length"]))
            else:
                body = await self.reader.read()
        return Answer(int(status), headers, body)

    async def chunks(self) -> AsyncIterator[bytes]:
        while True:
            size = int((await self.reader.readuntil(b"\r\n")).strip(), 16)
            data = await self.reader.readexactly(size)
            assert await self.reader.readexactly(2) == b"\r\n"
            if not size:
                return
            yield data

    async def ended(self) -> bytes:
        """What still comes until the server has closed."""
        async with asyncio.timeout(GENEROUS_S):
            return await self.reader.read()

    def close(self) -> None:
        self.writer.close()

    def half_close(self) -> None:
        """Say that no more will be sent (FIN); over TLS without a word of it in TLS."""
        sock = self.writer.get_extra_info("socket")
        with socket.socket(fileno=os.dup(sock.fileno())) as same:
            same.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Leave without a goodbye (RST)."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


@dataclass
class Rig:
    gateway: Gateway
    router: PlayedRouter
    keys: Keys
    http: httpx.AsyncClient
    stop: asyncio.Event
    served: asyncio.Task[None]
    clients: list[RawClient] = field(default_factory=list)

    async def connect(self) -> RawClient:
        secure = https.get()
        tls = secure.client() if secure is not None else None
        reader, writer = await asyncio.open_connection("127.0.0.1", self.gateway.port, limit=2**22, ssl=tls)
        self.clients.append(RawClient(reader, writer))
        return self.clients[-1]

    async def post(self, path: str, body: Any, **headers: str) -> Answer:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        response = await self.http.post(path, content=data, headers={"content-type": "application/json"} | headers)
        return Answer(response.status_code, dict(response.headers), response.content)

    async def get(self, path: str) -> Answer:
        response = await self.http.get(path)
        return Answer(response.status_code, dict(response.headers), response.content)

    async def chat(self, content: str = "hi", **fields: Any) -> Answer:
        return await self.post(CHAT, chat_body(content, **fields))

    async def complete(self, prompt: Any = "hi", **fields: Any) -> Answer:
        return await self.post(COMPLETIONS, {"model": MODEL, "prompt": prompt} | fields)

    async def call(self, count: int = 1) -> Submitted:
        """The latest of at least so many calls that have reached the router."""
        await until(lambda: len(self.router.submitted) >= count, GENEROUS_S)
        return self.router.submitted[-1]

    async def idle(self) -> None:
        """Return when no call is left anywhere in the gateway, and no token reserved."""
        await until(
            lambda: (self.gateway.stats().in_flight, self.gateway.stats().reserved_tokens) == (0, 0), GENEROUS_S
        )


def chat_body(content: str = "hi", **fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": content}]} | fields


def request(
    path: str = CHAT,
    body: Any = b"",
    *,
    method: str = "POST",
    key: str | None = KEY,
    length: bool = True,
    version: str = "1.1",
    **headers: str,
) -> bytes:
    """A request's bytes. Underscores in header names become dashes; a dict body becomes JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    fields = {"host": "test"} | ({"authorization": f"Bearer {key}"} if key else {})
    if data:
        fields["content-type"] = "application/json"
    if length and (data or method == "POST"):
        fields["content-length"] = str(len(data))
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = f"{method} {path} HTTP/{version}\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return head.encode("latin-1") + b"\r\n" + data


@asynccontextmanager
async def gateway(
    *, wait_s: float = 30.0, grace_s: float = 5.0, options: Mapping[str, Any] = NO_OPTIONS, **limits: Any
) -> AsyncIterator[Rig]:
    """A gateway that serves the model "m"; ``limits`` of ``ConnectionLimits``, ``options`` of ``GatewayOptions``."""
    keys, router = Keys(), PlayedRouter({MODEL: bundle()})
    given = {"wait_s": wait_s, **options}
    async with serving(router, keys, grace_s=grace_s, options=given, **limits) as (made, http, stop, served):
        rig = Rig(made, router, keys, http, stop, served)
        try:
            yield rig
        finally:
            for client in rig.clients:
                client.close()


@asynccontextmanager
async def serving(
    router: Router,
    keys: Keys,
    *,
    grace_s: float = 5.0,
    options: Mapping[str, Any] = NO_OPTIONS,
    history: History | None = None,
    **limits: Any,
) -> AsyncIterator[tuple[Gateway, httpx.AsyncClient, asyncio.Event, asyncio.Task[None]]]:
    """A gateway in front of a router, a client with a key, and the means to stop it."""
    stop = asyncio.Event()
    secure = https.get()
    certificate = secure.keyring.server if secure is not None else None
    given = GatewayOptions(**{"port": 0, "certificate": certificate, **options}, limits=ConnectionLimits(**limits))
    made = Gateway(given, keys, registry=CollectorRegistry(), history=history)
    served = asyncio.create_task(made.serve(router, stop, grace_s=grace_s))
    headers = {"authorization": f"Bearer {KEY}"}
    pool = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(
        base_url=made.url, headers=headers, timeout=GENEROUS_S, verify=False, limits=pool
    ) as http:
        try:
            yield made, http, stop, served
        finally:
            await http.aclose()
            stop.set()
            async with asyncio.timeout(GENEROUS_S):
                await served


async def eventually(fact: Callable[[], Awaitable[object]]) -> None:
    """Return when what has to be asked for is so; TimeoutError when it is not in time."""
    async with asyncio.timeout(GENEROUS_S):
        while True:
            if await fact():
                return
            await asyncio.sleep(0.02)


def events(body: bytes) -> list[Any]:
    """The data of each event of a stream: JSON, or the text ``[DONE]``."""
    found = []
    for block in body.decode().split("\n\n"):
        if block:
            assert block.startswith("data: "), block
            assert "\n" not in block
            text = block.removeprefix("data: ")
            found.append(text if text == "[DONE]" else json.loads(text))
    return found


def joined(body: bytes, choice: int = 0) -> str:
    """The text of one choice of a stream."""
    text = ""
    for event in events(body):
        if isinstance(event, dict):
            for part in event.get("choices", []):
                if part["index"] == choice:
                    text += part.get("text", "") + part.get("delta", {}).get("content", "")
    return text
