from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from control_plane.contracts.model_choice import ModelAsk, ModelChoice
from control_plane.gateway import fallback_watch
from control_plane.gateway.fallback_watch import FallbackWatch
from tests.unit.gateway.fakes import StubRouter, until


class NothingInstead(StubRouter):
    def instead(self, ask: ModelAsk, choice: ModelChoice, then: Callable[[ModelChoice | None], None]) -> None:
        then(None)


@pytest.mark.parametrize("at_a_worker", [True, False])
async def test_only_a_call_that_a_worker_had_came_back_from_one(
    monkeypatch: pytest.MonkeyPatch, at_a_worker: bool
) -> None:
    monkeypatch.setattr(fallback_watch, "LOOK_AGAIN_S", 0.01)
    waits = not at_a_worker
    watch = FallbackWatch(
        NothingInstead({}), ModelAsk("m", list), ModelChoice("m", "m"), lambda: False, lambda: waits, lambda _: None
    )
    assert (watch.returned, watch.since > 0.0) == (at_a_worker, waits)
    waits = True
    await until(lambda: watch.since > 0.0)
    await asyncio.sleep(0.05)
    assert watch.returned is at_a_worker
    watch.stop()
