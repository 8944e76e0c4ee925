"""A router's side of the data plane, reduced to what tests of a worker need."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc

from control_plane.contracts.v1 import worker_pb2 as pb
from control_plane.contracts.v1 import worker_pb2_grpc
from control_plane.contracts.wire.channel import CLIENT_OPTIONS
from control_plane.contracts.wire.convert import to_wire
from control_plane.contracts.worker import Delta, Finish, Generate, Sampling
from tests.frames import deltas_from_wire
from workers.engine.modelless.tokenizer import ByteTokenizer, builtin_files

TOKENIZER = ByteTokenizer(builtin_files())


@dataclass(slots=True)
class Reply:
    """Everything that came for one call. ``ended`` is set when its last delta is there."""

    deltas: list[Delta] = field(default_factory=list)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, delta: Delta) -> None:
        assert not self.ended.is_set(), f"a delta after the last one: {delta}"
        self.deltas.append(delta)
        self.begun.set()
        if delta.done is not None or delta.error is not None:
            self.ended.set()

    async def end(self, timeout_s: float = 20.0) -> Reply:
        async with asyncio.timeout(timeout_s):
            await self.ended.wait()
        return self

    def text(self, choice: int = 0) -> str:
        return "".join(delta.text for delta in self.deltas if delta.choice == choice)

    def token_ids(self, choice: int = 0) -> list[int]:
        return [token for delta in self.deltas if delta.choice == choice for token in delta.token_ids]

    def finish(self, choice: int = 0) -> Finish:
        (found,) = [delta.finish for delta in self.deltas if delta.choice == choice and delta.finish is not None]
        return found

    @property
    def last(self) -> Delta:
        return self.deltas[-1]

    @property
    def error_code(self) -> str:
        return self.last.error.code if self.last.error is not None else ""


class Link:
    """One Serve stream. ``lost`` is set, with ``status``, when the worker's side of it is over."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self._writing = asyncio.Lock()
        self._numbers = itertools.count(1)
        self.replies: dict[int, Reply] = {}
        self.frames: list[pb.WorkerFrame] = []
        self.lost = asyncio.Event()
        self.status: grpc.StatusCode | None = None

    async def send(self, frame: pb.RouterFrame) -> None:
        async with self._writing:
            await self._call.write(frame)

    async def generate(self, prompt: str | Sequence[int] = "hello", *, number: int = 0, **fields: Any) -> Reply:
        """Ask for an answer. Fields of Generate and of Sampling by name; ``max_tokens`` is 16 unless given."""
        number = number or next(self._numbers)
        own = {name: fields.pop(name) for name in ("request_id", "priority", "cache_salt", "stream") if name in fields}
        ids = TOKENIZER.encode(prompt) if isinstance(prompt, str) else list(prompt)
        sampling = Sampling(**{"max_tokens": 16, **fields})
        asked = Generate(number, own.pop("request_id", f"request-{id(self)}-{number}"), ids, sampling, **own)
        reply = self.replies[number] = Reply()
        await self.send(pb.RouterFrame(generate=to_wire(asked, pb.Generate)))
        return reply

    async def abort(self, number: int) -> None:
        await self.send(pb.RouterFrame(abort=pb.AbortCall(call=number)))

    def number_of(self, reply: Reply) -> int:
        return next(number for number, other in self.replies.items() if other is reply)

    async def close(self) -> None:
        await self._call.done_writing()

    def cancel(self) -> None:
        self._call.cancel()

    async def read(self) -> None:
        try:
            while (frame := await self._call.read()) is not grpc.aio.EOF:
                self.frames.append(frame)
                for delta in deltas_from_wire(frame):
                    self.replies[delta.call].take(delta)
        except grpc.aio.AioRpcError as error:
            self.status = error.code()
        else:
            self.status = await self._call.code()
        finally:
            self.lost.set()


class WorkerClient:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.stub = worker_pb2_grpc.WorkerStub(channel)  # type: ignore[no-untyped-call]

    @asynccontextmanager
    async def link(self, router_id: str = "router-1") -> AsyncIterator[Link]:
        link = Link(self.stub.Serve())
        reader = asyncio.create_task(link.read())
        await link.send(pb.RouterFrame(hello=pb.Hello(router_id=router_id)))
        try:
            yield link
        finally:
            link.cancel()
            await asyncio.gather(reader, return_exceptions=True)

    async def load(self) -> pb.Load:
        call = self.stub.WatchLoad(pb.WatchLoadRequest())
        try:
            load: pb.Load = await call.read()
            return load
        finally:
            call.cancel()

    async def until(self, accept: Any, timeout_s: float = 20.0) -> pb.Load:
        """The first load that ``accept`` takes."""
        call = self.stub.WatchLoad(pb.WatchLoadRequest(interval_s=0.02))
        try:
            async with asyncio.timeout(timeout_s):
                async for load in call:
                    if accept(load):
                        found: pb.Load = load
                        return found
        finally:
            call.cancel()
        raise AssertionError("the loads ended before one was accepted")

    async def until_idle(self) -> pb.Load:
        return await self.until(lambda load: load.running == load.waiting == load.used_blocks == 0)


@asynccontextmanager
async def worker_client(address: str) -> AsyncIterator[WorkerClient]:
    async with grpc.aio.insecure_channel(address, options=CLIENT_OPTIONS) as channel:
        yield WorkerClient(channel)


def script(**values: Any) -> str:
    """A prompt that carries this script."""
    return "please " + json.dumps({"script": values})
