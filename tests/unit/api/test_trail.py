"""What was done is written down, whoever is gone by then."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from control_plane.api.caller import Caller, enter
from control_plane.api.trail import Trail
from control_plane.contracts.access import Actor, Role
from control_plane.contracts.errors import Conflict, RequestTimeout, Unavailable, WorkerLost
from control_plane.contracts.fleet import ActionResult
from control_plane.store import Audit


class Written:
    """Stands in for the audit of the store."""

    def __init__(self) -> None:
        self.actions: list[tuple[str, str]] = []
        self.ends: list[Mapping[str, Any]] = []

    def add(self, actor: Actor, action: str, target: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        self.actions.append((actor.id, action))
        self.ends.append(after)


async def check() -> None:
    pass


async def test_a_write_is_audited_though_its_operator_leaves_while_no_thread_is_free() -> None:
    loop, free, written = asyncio.get_running_loop(), threading.Event(), Written()
    loop.set_default_executor(ThreadPoolExecutor(1))
    loop.run_in_executor(None, free.wait)
    trail = Trail(cast(Audit, written))
    enter(Caller(Actor("op-1", "ann", Role.OPERATOR), check))
    call = asyncio.create_task(trail.left("worker.cordon", "worker/w", {}, {}))
    await asyncio.sleep(0.01)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    free.set()
    await trail.written()
    assert written.actions == [("op-1", "worker.cordon")]


async def ends(work: Awaitable[ActionResult], *, dry_run: bool = False) -> list[Mapping[str, Any]]:
    """What is stored of work that changes ``x`` from 1 to 2."""
    written = Written()
    enter(Caller(Actor("op-1", "ann", Role.OPERATOR), check))
    with contextlib.suppress(Exception):
        await Trail(cast(Audit, written)).of(work, "worker.sleep", "worker/w", {"x": 1}, {"x": 2}, dry_run=dry_run)
    return written.ends


async def result(changed: bool) -> ActionResult:
    return ActionResult(changed, "")


async def raising(error: Exception) -> ActionResult:
    raise error


async def test_each_write_is_stored_with_its_end() -> None:
    assert await ends(result(True)) == [{"x": 2}]
    assert await ends(result(False)) == []
    assert await ends(result(True), dry_run=True) == []
    assert await ends(raising(Conflict("requests run"))) == [], "nothing was done"
    assert await ends(raising(RequestTimeout("may run on"))) == [{"ended": "may run on"}]
    assert await ends(raising(Unavailable("gave up after 600 s"))) == [{"ended": "gave up after 600 s"}]
    assert await ends(raising(WorkerLost("no memory"))) == [{"ended": "no memory"}]
    assert await ends(raising(OSError("secret"))) == [{"ended": "OSError"}]
    assert await ends(raising(Unavailable("gave up")), dry_run=True) == []
