"""The stream to a worker: there is a next attempt, whatever became of the last one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from control_plane.contracts.fleet import Endpoint, WorkerPhase
from control_plane.router.forwarder import link as link_module
from control_plane.router.forwarder.link import WorkerLink
from control_plane.router.prefix_index import PrefixIndex
from control_plane.router.targets import Target


async def test_an_owner_that_fails_on_the_end_of_a_link_does_not_end_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Owner:
        ends = 0

        def link_down(self, target: Target, cause: str) -> float:
            self.ends += 1
            if self.ends == 1:
                raise ZeroDivisionError
            again.set()
            return 60.0

    again = asyncio.Event()
    monkeypatch.setattr(link_module, "AGAIN_S", 0.0)
    owner: Any = Owner()
    endpoint = Endpoint("w", "i1", "127.0.0.1:1", "pool", "tiny", WorkerPhase.READY)
    target = Target(endpoint, PrefixIndex().open())
    link = WorkerLink(target, "r1", owner)
    async with asyncio.timeout(30):
        await again.wait()
    assert not link.task.done()
    assert "the end of a link could not be dealt with" in caplog.messages
    link.close()
