"""The port of the operators' API, and what is audited when."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable
from typing import Any, cast
from unittest.mock import AsyncMock, MagicMock

import pytest

from control_plane.api.access_service import AccessService
from control_plane.api.caller import Caller, enter
from control_plane.api.server import ApiServer, _Operator
from control_plane.api.trail import Trail
from control_plane.contracts.access import Actor, PolicyChange, Role
from control_plane.contracts.errors import Conflict, Unavailable
from control_plane.contracts.fleet import ActionResult
from control_plane.contracts.policy import Policy
from control_plane.contracts.v1 import access_pb2
from control_plane.contracts.v1 import operator_pb2 as pb
from control_plane.store import Audit


async def test_a_port_that_cannot_be_had_is_told_with_its_setting() -> None:
    api = ApiServer(MagicMock(), "op-inferdeck-x", MagicMock(), MagicMock())
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(Conflict) as caught:
            api.bind("127.0.0.1", port)
    assert f"api.port: cannot listen on 127.0.0.1:{port}" in caught.value.message
    assert "[api]" in (caught.value.hint or "")
    await api.stop(0.0)


async def test_a_drain_is_audited_when_it_begins() -> None:
    """Its operator may be gone before there is any progress."""
    began = asyncio.Event()

    async def drain(*_: Any, **__: Any) -> Any:
        began.set()
        await asyncio.Event().wait()
        yield

    platform, trail = MagicMock(), AsyncMock()
    platform.operations.drain = drain
    platform.controller.in_flight.return_value = 3
    steps: Any = _Operator(platform, trail, MagicMock()).Drain(pb.DrainWorkerRequest(worker_id="w"), MagicMock())
    watching = asyncio.create_task(anext(steps))
    await asyncio.wait_for(began.wait(), 20)
    watching.cancel()
    trail.left.assert_awaited_once_with("worker.drain", "worker/w", {}, {"draining": True, "in_flight": 3})


class Written:
    """Stands in for the audit of the store."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, Any]] = []

    def add(self, actor: Actor, action: str, target: str, before: Any, after: Any) -> None:
        self.entries.append((action, after))


def operator(platform: Any) -> tuple[_Operator, Written, Trail]:
    async def check() -> None:
        pass

    written = Written()
    enter(Caller(Actor("op-1", "ann", Role.OPERATOR), check))
    trail = Trail(cast(Audit, written))
    return _Operator(platform, trail, MagicMock()), written, trail


async def left_in_the_middle(
    call: Awaitable[Any], began: asyncio.Event, go_on: asyncio.Event | threading.Event
) -> None:
    """The operator who made this call goes while it is worked on; the work goes on then."""
    made = asyncio.ensure_future(call)
    await began.wait()
    made.cancel()
    with pytest.raises(asyncio.CancelledError):
        await made
    go_on.set()


async def test_a_sleep_that_nobody_saw_the_end_of_is_audited() -> None:
    platform, context = MagicMock(), AsyncMock()
    platform.operations.sleep = AsyncMock(side_effect=Unavailable("gave up after 600 s: no answer at w"))
    context.abort.side_effect = RuntimeError("aborted")
    served, written, _ = operator(platform)
    with pytest.raises(RuntimeError, match="aborted"):
        await served.Sleep(pb.WorkerSleepRequest(worker_id="w", level=1), context)
    assert written.entries == [("worker.sleep", {"ended": "gave up after 600 s: no answer at w"})]


async def test_what_an_operator_began_is_done_and_audited_though_they_leave_in_the_middle() -> None:
    began, go_on, done = asyncio.Event(), asyncio.Event(), list[str]()

    async def cordon(worker_id: str, *, dry_run: bool) -> ActionResult:
        began.set()
        await go_on.wait()
        done.append(worker_id)
        return ActionResult(True, "cordoned")

    platform = MagicMock()
    platform.operations.cordon = cordon
    served, written, trail = operator(platform)
    await left_in_the_middle(served.Cordon(pb.WorkerRef(worker_id="w"), MagicMock()), began, go_on)
    await served.works.end(20.0)
    await trail.written()
    assert (done, written.entries) == (["w"], [("worker.cordon", {"cordoned": True})])


async def test_what_fails_when_its_operator_has_left_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    async def scale(*_: Any, **__: Any) -> ActionResult:
        began.set()
        await go_on.wait()
        raise Conflict("there are no more GPUs")

    platform = MagicMock()
    platform.operations.scale = scale
    platform.pools.settings = {}
    served, _, _ = operator(platform)
    await left_in_the_middle(served.Scale(pb.ScaleRequest(pool="w", replicas=9), MagicMock()), began, go_on)
    await served.works.end(20.0)
    (record,) = caplog.records
    assert (record.__dict__["task"], record.__dict__["cause"]) == ("Scale", "there are no more GPUs")


async def test_a_key_that_was_not_changed_when_its_operator_has_left_is_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop, began, go_on = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def change(*_: Any, **__: Any) -> Any:
        loop.call_soon_threadsafe(began.set)
        go_on.wait(20)
        raise Conflict("the key is revoked")

    access = MagicMock()
    access.keys.change = change
    operator(MagicMock())
    served = AccessService(access, MagicMock(), MagicMock(), frozenset)
    await left_in_the_middle(served.SetKey(access_pb2.SetKeyRequest(key_id="key-1"), MagicMock()), began, go_on)
    await served.works.end(20.0)
    (record,) = caplog.records
    assert (record.__dict__["task"], record.__dict__["cause"]) == ("SetKey", "the key is revoked")


async def test_routers_hear_of_a_policy_whose_operator_has_left() -> None:
    loop, began, go_on, changed = asyncio.get_running_loop(), asyncio.Event(), threading.Event(), MagicMock()

    def change(*_: Any, **__: Any) -> Any:
        loop.call_soon_threadsafe(began.set)
        go_on.wait(20)
        return PolicyChange(Policy(), Policy())

    access = MagicMock()
    access.policies.set = change
    operator(MagicMock())
    served = AccessService(access, MagicMock(), changed, frozenset)
    request = access_pb2.SetPolicyRequest(assignments=["routing.profile=balanced"])
    await left_in_the_middle(served.SetPolicy(request, MagicMock()), began, go_on)
    await served.works.end(20.0)
    changed.assert_called_once_with()


async def test_what_is_not_over_when_the_control_plane_ends_is_audited_so() -> None:
    began = asyncio.Event()

    async def wake(*_: Any, **__: Any) -> ActionResult:
        began.set()
        await asyncio.Event().wait()
        raise AssertionError

    platform = MagicMock()
    platform.operations.wake = wake
    platform.controller.workers = {"w": MagicMock(load=None)}
    served, written, trail = operator(platform)
    call = asyncio.ensure_future(served.Wake(pb.WorkerRef(worker_id="w"), MagicMock()))
    await began.wait()
    await served.works.end(0.0)
    await trail.written()
    assert written.entries == [("worker.wake", {"ended": "broken off: the control plane ended"})]
    with pytest.raises(asyncio.CancelledError):
        await call
