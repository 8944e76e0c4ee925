"""A gateway that keeps conversations, on SQLite or PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import openai

from control_plane.contracts.grant import Grant
from control_plane.gateway.history.history import History
from control_plane.store import Database
from control_plane.store.journal import Journal
from tests.integration.gateway.rig import KEY, MODEL, Keys, PlayedRouter, Rig, serving
from tests.unit.gateway.tokenizers import bundle

OTHERS_KEY = "sk-inferdeck-others-9876543210"


@asynccontextmanager
async def keeping(url: str, folder: Path, gateway_id: str = "g1") -> AsyncIterator[Rig]:
    """A gateway that serves the model "m" and keeps what is said in the database at ``url``. OTHERS_KEY is another
    tenant's."""
    database = Database.open(url, folder / "deck.db", durable=True)
    keys, router = Keys(), PlayedRouter({MODEL: bundle()})
    keys.granted[OTHERS_KEY] = Grant("key-2", tenant="others")
    history = History(database, Journal.open(folder / "journals", gateway_id))
    try:
        async with serving(router, keys, history=history) as (made, http, stop, served):
            rig = Rig(made, router, keys, http, stop, served)
            try:
                yield rig
            finally:
                for client in rig.clients:
                    client.close()
    finally:
        database.close()


def client_of(rig: Rig, key: str = KEY) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{rig.gateway.url}/v1", api_key=key, max_retries=0)
