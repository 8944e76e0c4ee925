"""The operators' API from the outside: every call of ``v1/operator.proto``, in contract dataclasses.

The console's only door to the control plane: it and the clients that it has (``access_client``, ``history_client``,
``decision_client``) are all of the console that sees generated stubs. Errors are the tree of ``contracts/errors.py``;
``Unreachable`` means that nobody answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Awaitable
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, TypeVar

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its own lines would mix with ours on stderr

import grpc

from console.access_client import AccessClient
from console.decision_client import DecisionClient
from console.diagnosis import diagnosis
from console.history_client import HistoryClient
from console.home import Home, Target, target_for
from control_plane.contracts.decision import DecisionView
from control_plane.contracts.errors import InferDeckError
from control_plane.contracts.failure import Failure
from control_plane.contracts.fleet import ActionResult, DrainProgress, Event, RequestView, ShutdownProgress, Snapshot
from control_plane.contracts.identity import Peer
from control_plane.contracts.router_state import RouterState
from control_plane.contracts.step import BlockSnapshot, StepFrame, TraceMode, TraceState
from control_plane.contracts.timeline import Timeline
from control_plane.contracts.v1 import operator_pb2 as pb
from control_plane.contracts.v1 import worker_pb2
from control_plane.contracts.v1.operator_pb2_grpc import OperatorStub
from control_plane.contracts.wire.convert import from_wire, to_wire
from control_plane.contracts.wire.failures import failures_from_wire
from control_plane.contracts.wire.secure import open_channel
from control_plane.contracts.wire.status import REASON_KEY, error_from
from control_plane.contracts.wire.steps import step_frame_from_wire

T = TypeVar("T")

CONNECT_TIMEOUT_S = 3.0
CALL_TIMEOUT_S = 20.0
SLEEP_TIMEOUT_S = 620.0
"""Longer than the control plane waits for the worker."""


class OperatorClient:
    """One connection to a control plane; make and use it inside one running event loop.

    ::

        async with OperatorClient.open() as client:
            snapshot = await client.get_snapshot()
            async for snapshot in client.watch(): ...

    Streams end by closing the iterator (``aclose``) or cancelling the task that reads it.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self._opened_with = _stamp(target.credentials)
        self._channels = [self._open()]
        self._metadata = (("authorization", f"Bearer {target.operator_key}"),)

    @classmethod
    def open(
        cls,
        home: str | os.PathLike[str] | None = None,
        server: str | None = None,
        operator_key_file: str | None = None,
    ) -> Self:
        """A client of the platform in ``home`` (see ``Home.find``), or at ``server``. Raises Unreachable at once
        when the home has no running control plane."""
        return cls(target_for(Home.find(home), server, operator_key_file))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close()

    def _open(self) -> grpc.aio.Channel:
        channel = open_channel(self.target.address, self.target.credentials, Peer.CONTROL_PLANE)
        make_stub: Any = OperatorStub
        self._made_stub = make_stub(channel)
        self._made_access = AccessClient(channel, self._unary)
        self._made_history = HistoryClient(channel, self._unary)
        self._made_decisions = DecisionClient(channel, self._unary)
        return channel

    def _follow_credentials(self) -> None:
        """For new calls. Credentials that were renewed want another channel; calls that run keep theirs."""
        if (stamp := _stamp(self.target.credentials)) != self._opened_with:
            self._opened_with = stamp
            self._channels.append(self._open())

    @property
    def _stub(self) -> Any:
        self._follow_credentials()
        return self._made_stub

    @property
    def access(self) -> AccessClient:
        """Keys, policy, operators and the audit."""
        self._follow_credentials()
        return self._made_access

    @property
    def history(self) -> HistoryClient:
        """Conversations."""
        self._follow_credentials()
        return self._made_history

    @property
    def decisions(self) -> DecisionClient:
        """Why requests went where they went."""
        self._follow_credentials()
        return self._made_decisions

    async def get_snapshot(self, *, finished_requests: bool = False) -> Snapshot:
        request = pb.GetSnapshotRequest(finished_requests=finished_requests)
        return from_wire(await self._unary(self._stub.GetSnapshot, request), Snapshot)

    async def watch(
        self, interval_s: float = 0.0, *, finished_requests: bool = False
    ) -> AsyncGenerator[Snapshot, None]:
        """A snapshot now and after every change, at most every ``interval_s`` seconds (0: the server's default)."""
        request = pb.WatchRequest(interval_s=interval_s, finished_requests=finished_requests)
        ended: dict[tuple[object, ...], RequestView] = {}
        async with contextlib.aclosing(self._messages(self._stub.Watch, request)) as messages:
            async for message in messages:
                yield _snapshot(message, ended)

    async def cordon(self, worker_id: str, *, dry_run: bool = False) -> ActionResult:
        request = pb.WorkerRef(worker_id=worker_id, dry_run=dry_run)
        return from_wire(await self._unary(self._stub.Cordon, request), ActionResult)

    async def uncordon(self, worker_id: str, *, dry_run: bool = False) -> ActionResult:
        request = pb.WorkerRef(worker_id=worker_id, dry_run=dry_run)
        return from_wire(await self._unary(self._stub.Uncordon, request), ActionResult)

    def drain(
        self, worker_id: str, *, timeout_s: float = 0.0, dry_run: bool = False
    ) -> AsyncGenerator[DrainProgress, None]:
        """Cordon, then progress until nothing runs; the last one has ``done`` or ``timed_out`` set."""
        request = pb.DrainWorkerRequest(worker_id=worker_id, timeout_s=timeout_s, dry_run=dry_run)
        return self._stream(self._stub.Drain, request, DrainProgress)

    async def scale(self, pool: str, replicas: int, *, dry_run: bool = False) -> ActionResult:
        request = pb.ScaleRequest(pool=pool, replicas=replicas, dry_run=dry_run)
        return from_wire(await self._unary(self._stub.Scale, request), ActionResult)

    async def cancel(self, request_id: str, *, dry_run: bool = False) -> ActionResult:
        request = pb.CancelRequestRequest(request_id=request_id, dry_run=dry_run)
        return from_wire(await self._unary(self._stub.CancelRequest, request), ActionResult)

    async def logs(self, target: str, *, tail_lines: int = 0, follow: bool = False) -> AsyncGenerator[bytes, None]:
        """Pieces of a log as they stand in its file (not aligned to lines or characters)."""
        request = pb.LogsRequest(target=target, tail_lines=tail_lines, follow=follow)
        async with contextlib.aclosing(self._messages(self._stub.Logs, request)) as chunks:
            async for chunk in chunks:
                yield chunk.data

    def events(self, since: int = 0, *, follow: bool = False) -> AsyncGenerator[Event, None]:
        """Events with ``seq`` above ``since``, oldest first."""
        return self._stream(self._stub.Events, pb.EventsRequest(since=since, follow=follow), Event)

    async def watch_steps(
        self, worker_id: str, from_step: int = 0, live: bool = True, *, last_steps: int = 0
    ) -> AsyncGenerator[StepFrame, None]:
        """The steps that the worker keeps, at most ``last_steps`` of them (0: all), and, with ``live``, each new one
        without end. The first frame has ``base``, the block tables that its steps continue."""
        request = pb.WorkerStepsRequest(worker_id=worker_id, from_step=from_step, live=live, last_steps=last_steps)
        async with contextlib.aclosing(self._messages(self._stub.WatchSteps, request)) as messages:
            async for message in messages:
                yield step_frame_from_wire(message)

    async def set_trace(self, worker_id: str, mode: TraceMode, every: int = 1, *, dry_run: bool = False) -> TraceState:
        """Trace no step, every n-th, or all; UNSPECIFIED, and a dry run, change nothing and tell how it stands."""
        wanted = f"TRACE_MODE_{mode.name}"
        request = pb.WorkerTraceRequest(worker_id=worker_id, mode=wanted, every=every, dry_run=dry_run)
        return from_wire(await self._unary(self._stub.SetTrace, request), TraceState)

    async def inject(
        self, worker_id: str, failure: Failure | None = None, *, heal: bool = False, dry_run: bool = False
    ) -> tuple[Failure, ...]:
        """Make a simulated worker fail, end its failures, or only ask. Those that are on or to come; of a dry run,
        those that are so already."""
        wire = None if failure is None else to_wire(failure, worker_pb2.Failure)
        request = pb.WorkerInjectRequest(worker_id=worker_id, failure=wire, heal=heal, dry_run=dry_run)
        return failures_from_wire(await self._unary(self._stub.Inject, request))

    async def sleep(self, worker_id: str, level: int, *, dry_run: bool = False) -> ActionResult:
        """Have a worker's engine give its device's memory back; answers when it sleeps."""
        request = pb.WorkerSleepRequest(worker_id=worker_id, level=level, dry_run=dry_run)
        return from_wire(await self._unary(self._stub.Sleep, request, SLEEP_TIMEOUT_S), ActionResult)

    async def wake(self, worker_id: str, *, dry_run: bool = False) -> ActionResult:
        """Have it take requests again; answers when it does."""
        request = pb.WorkerRef(worker_id=worker_id, dry_run=dry_run)
        return from_wire(await self._unary(self._stub.Wake, request, SLEEP_TIMEOUT_S), ActionResult)

    async def blocks(self, worker_id: str) -> BlockSnapshot:
        """The worker's whole KV cache now, from the engine itself."""
        return from_wire(await self._unary(self._stub.GetBlocks, pb.WorkerRef(worker_id=worker_id)), BlockSnapshot)

    async def router(self, router_id: str) -> RouterState:
        """A router that is a process of its own, and how it sees each endpoint now."""
        return from_wire(await self._unary(self._stub.GetRouter, pb.RouterRef(router_id=router_id)), RouterState)

    async def timeline(self, request_id: str) -> Timeline:
        """Where a request's time went, with what its worker's engine keeps of its steps."""
        return from_wire(await self._unary(self._stub.GetTimeline, pb.TimelineRequest(request_id=request_id)), Timeline)

    def follow_decisions(self) -> AsyncGenerator[tuple[DecisionView, ...], None]:
        """The routers' last decisions, then the new ones as they come."""
        return self.decisions.follow()

    def shutdown(self, grace_s: float = 0.0) -> AsyncGenerator[ShutdownProgress, None]:
        """Stop everything. The control plane ends after the last message."""
        return self._stream(self._stub.Shutdown, pb.ShutdownRequest(grace_s=grace_s), ShutdownProgress)

    async def _unary(self, method: Any, request: Any, timeout_s: float = CALL_TIMEOUT_S) -> Any:
        answer = asyncio.ensure_future(method(request, metadata=self._metadata, timeout=timeout_s))
        try:
            done, _ = await asyncio.wait((answer,), timeout=CONNECT_TIMEOUT_S)
            if not done and self._channels[-1].get_state() is not grpc.ChannelConnectivity.READY:
                raise await diagnosis(self.target, "no answer")
            return await answer
        except grpc.aio.AioRpcError as error:
            raise await self._failure(error) from None
        finally:
            answer.cancel()

    async def _stream(self, method: Any, request: Any, cls: type[T]) -> AsyncGenerator[T, None]:
        async with contextlib.aclosing(self._messages(method, request)) as messages:
            async for message in messages:
                yield from_wire(message, cls)

    async def _messages(self, method: Any, request: Any) -> AsyncGenerator[Any, None]:
        call = method(request, metadata=self._metadata)
        try:
            await self._connected(call.wait_for_connection())
            async for message in call:
                yield message
        except grpc.aio.AioRpcError as error:
            raise await self._failure(error) from None
        finally:
            call.cancel()

    async def _connected(self, connection: Awaitable[None]) -> None:
        """A call that waits has no deadline of its own, but nobody should wait for a host that never answers."""
        try:
            await asyncio.wait_for(connection, CONNECT_TIMEOUT_S)
        except TimeoutError:
            raise await diagnosis(self.target, "no answer") from None

    async def _failure(self, error: grpc.aio.AioRpcError) -> InferDeckError:
        reasoned = any(str(key) == REASON_KEY for key, _ in tuple(error.trailing_metadata() or ()))
        if not reasoned and error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
            return await diagnosis(self.target, _cause(error.details() or error.code().name.lower()))
        return error_from(error, peer=self.target.address)


def _stamp(credentials: str) -> tuple[int, int]:
    """What changes when the file is replaced."""
    if not credentials:
        return (0, 0)
    try:
        found = os.stat(credentials)
    except OSError:
        return (0, 0)
    return (found.st_ino, found.st_mtime_ns)


def _snapshot(message: pb.Snapshot, ended: dict[tuple[object, ...], RequestView]) -> Snapshot:
    """Requests that have ended come again with every snapshot, by the hundred: ``ended`` keeps what was read."""
    keys = [(request.id, request.phase, request.duration_s) for request in message.requests]
    pairs = zip(keys, message.requests, strict=True)
    requests = tuple(ended.get(key) or from_wire(request, RequestView) for key, request in pairs)
    ended.clear()
    ended.update((key, view) for key, view in zip(keys, requests, strict=True) if not view.phase.active)
    del message.requests[:]
    return replace(from_wire(message, Snapshot), requests=requests)


def _cause(details: str) -> str:
    """gRPC's connect errors repeat the address in several forms; the last words say what happened."""
    lowered = details.lower()
    for word in ("connection refused", "deadline exceeded", "connection reset", "name resolution", "socket closed"):
        if word in lowered:
            return "no answer in time" if word == "deadline exceeded" else word
    return details
