"""What was done is written down, whoever is gone by then."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from control_plane.api.caller import Caller, enter
from control_plane.api.trail import Trail
from control_plane.contracts.access import Actor, Role
from control_plane.store import Audit


class Written:
    """Stands in for the audit of the store."""

    def __init__(self) -> None:
        self.actions: list[tuple[str, str]] = []

    def add(self, actor: Actor, action: str, target: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        self.actions.append((actor.id, action))


async def test_a_write_is_audited_though_its_operator_leaves_while_no_thread_is_free() -> None:
    async def check() -> None:
        pass

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
