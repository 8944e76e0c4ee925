from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop

from tests.integration.gateway.rig import Rig, gateway


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that serves in production: its transports write, pause and close in their own way."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with gateway() as rig:
        yield rig
