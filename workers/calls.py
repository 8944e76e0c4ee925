"""The calls that run here, and the streams that their answers go back on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from control_plane.contracts.worker import CallError, Delta, Generate, RunningRequest

Deltas = list[Delta]

BACKLOG = 65_536
"""Deltas that may wait for a router that does not read. At more, its stream is ended."""


@dataclass(slots=True, eq=False)
class RunningCall:
    """One call. ``number`` is the router's, ``generate.call`` the engine's: two routers may use the same number.

    ``key`` is what no other running call has: the router's id and the request's. Callers choose request ids, so that
    the same one may come from several routers.
    """

    number: int
    generate: Generate
    stream: CallStream
    key: tuple[str, str]
    received_unix: float
    output_tokens: int = 0


class CallTable:
    """Every call of the worker, over all streams. ``abort`` is the engine's, by engine call number."""

    def __init__(self, abort: Callable[[int], None]) -> None:
        self._abort = abort
        self.by_engine_call: dict[int, RunningCall] = {}
        self._keys: set[tuple[str, str]] = set()
        self._last = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self.finished = 0

    def __len__(self) -> int:
        return len(self.by_engine_call)

    def next_number(self) -> int:
        self._last += 1
        return self._last

    def has_request(self, router_id: str, request_id: str) -> bool:
        """Whether a call of that router with that request id runs here."""
        return (router_id, request_id) in self._keys

    def open(self, stream: CallStream, number: int, generate: Generate) -> RunningCall:
        """Take in a call that came over ``stream`` as ``number``; ``generate.call`` is ``next_number()``."""
        call = RunningCall(number, generate, stream, (stream.router_id, generate.request_id), time.time())
        self.by_engine_call[generate.call] = call
        self._keys.add(call.key)
        stream.numbers[number] = call
        self._idle.clear()
        return call

    def close(self, call: RunningCall) -> None:
        """The call has ended; what the engine still says of it is dropped."""
        if self.by_engine_call.pop(call.generate.call, None) is None:
            return
        self._keys.discard(call.key)
        del call.stream.numbers[call.number]
        self.finished += 1
        if not self.by_engine_call:
            self._idle.set()

    def forget(self, call: RunningCall) -> None:
        """The engine refused the call: it never ran here."""
        self.close(call)
        self.finished -= 1

    def abort(self, call: RunningCall) -> None:
        self._abort(call.generate.call)

    def abort_request(self, request_id: str) -> bool:
        """Abort every router's call with this request id. Whether there was one."""
        found = [call for call in self.by_engine_call.values() if call.generate.request_id == request_id]
        for call in found:
            self.abort(call)
        return bool(found)

    def fail_all(self, error: CallError) -> None:
        """End every call with this error, and free what it holds in the engine."""
        for call in list(self.by_engine_call.values()):
            self.close(call)
            call.stream.fail(call.number, error)
            self.abort(call)

    async def idle(self) -> None:
        """Return when nothing runs."""
        await self._idle.wait()

    def list(self) -> list[RunningRequest]:
        return [
            RunningRequest(
                request_id=call.generate.request_id,
                router_id=call.stream.router_id,
                prompt_tokens=len(call.generate.prompt_token_ids),
                output_tokens=call.output_tokens,
                max_tokens=call.generate.sampling.max_tokens,
                priority=call.generate.priority,
                received_unix=call.received_unix,
                first_token_seen=call.output_tokens > 0,
            )
            for call in self.by_engine_call.values()
        ]


class CallStream:
    """One router's stream: deltas wait here until they can be written, all that wait in one frame.

    ``on_overrun`` is called once, when more than ``BACKLOG`` wait: the router does not read, whoever writes to it may
    be stuck, and nothing is kept for it any more. That is within a step of the engine: ``abort_all`` is for later.
    """

    def __init__(self, table: CallTable, on_overrun: Callable[[], object] = lambda: None) -> None:
        self._table = table
        self._on_overrun = on_overrun
        self._waiting: Deltas = []
        self._writer: asyncio.Future[None] | None = None
        self._closing = False
        self.router_id = ""
        self.numbers: dict[int, RunningCall] = {}
        self.overrun = False

    def push(self, deltas: Sequence[Delta]) -> None:
        """The engine's sink: one call per step."""
        if self.overrun:
            return
        table, waiting = self._table, self._waiting
        calls = table.by_engine_call
        for delta in deltas:
            call = calls.get(delta.call)
            if call is None:
                continue
            delta.call = call.number
            call.output_tokens += len(delta.token_ids)
            if delta.done is not None or delta.error is not None:
                table.close(call)
            waiting.append(delta)
        if waiting:
            self._wake()

    def fail(self, number: int, error: CallError) -> None:
        """Tell the router that its call has ended so."""
        if self.overrun:
            return
        self._waiting.append(Delta(number, error=error))
        self._wake()

    async def take(self) -> Deltas | None:
        """All that waits, as soon as something does; None when the stream is to end."""
        while not self._waiting:
            if self._closing:
                return None
            self._writer = asyncio.get_running_loop().create_future()
            try:
                await self._writer
            finally:
                self._writer = None
        taken, self._waiting = self._waiting, []
        return taken

    def close(self) -> None:
        """Nothing more will come; what waits is still written."""
        self._closing = True
        self._wake()

    def abort_all(self) -> None:
        """The router is gone: stop what it had started, and drop what it has not read."""
        for call in list(self.numbers.values()):
            self._table.close(call)
            self._table.abort(call)
        self._waiting.clear()

    def _wake(self) -> None:
        if self._writer is not None and not self._writer.done():
            self._writer.set_result(None)
        if len(self._waiting) > BACKLOG and not self.overrun:
            self.overrun = True
            self._waiting.clear()
            self.close()
            self._on_overrun()
