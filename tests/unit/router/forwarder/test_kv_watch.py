"""Following a worker's KV events: there is a next attempt, whatever became of the last one."""

from __future__ import annotations

import asyncio

import pytest

from control_plane.contracts.kv_mirror import KvMirror
from control_plane.router.forwarder import kv_watch
from control_plane.router.forwarder.kv_watch import KvWatch


async def test_what_nobody_expected_is_told_and_does_not_end_the_watch(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(kv_watch, "FIRST_BACKOFF_S", 0.0)
    watching = asyncio.create_task(KvWatch(KvMirror()).follow("an address without a port"))
    async with asyncio.timeout(30):
        while caplog.messages.count("a watch of KV events failed") < 2:
            assert not watching.done()
            await asyncio.sleep(0.005)
    watching.cancel()
