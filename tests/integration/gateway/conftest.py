from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest
import uvloop

from tests.integration.gateway.deck import Deck, deck
from tests.integration.gateway.rig import Rig, gateway
from tests.integration.gateway.store import keeping
from tests.postgres import Postgres
from tests.unit.gateway.fakes import until


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that serves in production: its transports write, pause and close in their own way."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    """One that is ready: it has read its tokenizers."""
    async with gateway() as rig:
        await until(lambda: rig.gateway.stats().ready)
        yield rig


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest) -> str:
    """ "" is SQLite in the test's folder."""
    if request.param == "sqlite":
        return ""
    postgres: Postgres = request.getfixturevalue("postgres")
    return postgres.new_database()


@pytest.fixture
async def kept(store_url: str, tmp_path: Path) -> AsyncIterator[Rig]:
    """A gateway that keeps conversations."""
    async with keeping(store_url, tmp_path) as rig:
        yield rig


@pytest.fixture
async def here() -> AsyncIterator[Deck]:
    async with deck() as made:
        yield made
