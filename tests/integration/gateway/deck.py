"""A gateway with its router and two models that names lead to, as they are; their engines are scripted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import openai

from control_plane.contracts.fleet import ModelView, RequestView
from control_plane.contracts.grant import Grant
from control_plane.contracts.model_routes import ModelRoute, ModelRoutes
from control_plane.contracts.routing import Routing
from control_plane.gateway.history.history import History
from tests.integration.gateway.rig import CHAT, KEY, Answer, Keys, eventually, serving
from tests.integration.router.rig import Rig as Routed
from tests.integration.router.rig import rig as routing
from tests.scripted_worker import ScriptedServer, scripted_server
from tests.unit.gateway.fakes import until

HI = {"role": "user", "content": "hi"}
SMALL, LARGE = "small-8b", "large-70b"
HARD = "Prove the theorem step by step."
ROUTES = {
    "smart": ModelRoute(target=SMALL),
    "auto": ModelRoute(small=SMALL, large=LARGE),
    "blend": ModelRoute(split={SMALL: 50, LARGE: 50}),
    "safe": ModelRoute(target=LARGE, fallback=(SMALL,)),
    "lost": ModelRoute(target="gone"),
}


@dataclass
class Deck:
    routed: Routed
    keys: Keys
    http: Any
    client: openai.AsyncOpenAI
    workers: Mapping[str, ScriptedServer]

    async def chat(self, model: str, content: str = "hi", header: str | None = None, **fields: Any) -> Answer:
        headers = {} if header is None else {"x-inferdeck-model": header}
        body = {"model": model, "messages": [{"role": "user", "content": content}], "max_tokens": 8} | fields
        response = await self.http.post(CHAT, json=body, headers=headers)
        return Answer(response.status_code, dict(response.headers), response.content)

    async def would(self, model: str, prompt: str = "hi", header: str | None = None, **fields: Any) -> Answer:
        headers = {} if header is None else {"x-inferdeck-model": header}
        response = await self.http.post("/v1/route", json={"model": model, "prompt": prompt} | fields, headers=headers)
        return Answer(response.status_code, dict(response.headers), response.content)

    async def view(self, request_id: str) -> RequestView:
        """What the router reported of a request that has ended."""
        await until(lambda: request_id in self.routed.fleet.ended)
        return self.routed.fleet.ended[request_id]

    async def allow(self, *models: str, queue_deadline_s: float = 30.0) -> None:
        """The key may call these from now on, and not "lost", which tells when that counts."""
        self.keys.granted[KEY] = Grant("key-1", models=models, queue_deadline_s=queue_deadline_s)

        async def counts() -> bool:
            return "lost" not in [model.id async for model in self.client.models.list()]

        await eventually(counts)

    async def route(self, routes: Mapping[str, ModelRoute]) -> None:
        self.routed.fleet.route(Routing(models=routes))
        await until(lambda: (self.routed.router.routes() or ModelRoutes()).names() == set(routes))


@asynccontextmanager
async def deck(history: History | None = None, price: float = 0.0) -> AsyncIterator[Deck]:
    keys = Keys()
    async with (
        scripted_server(worker_id="w-small", model=SMALL, max_context=2048, tokens=4) as small,
        scripted_server(worker_id="w-large", model=LARGE, max_context=4096, tokens=4) as large,
        routing() as routed,
        serving(routed.router, keys, history=history) as (gateway, http, _, _),
        openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0) as client,
    ):
        fleet = routed.fleet
        fleet.models = (
            ModelView(SMALL, "p1", max_context=2048),
            ModelView(LARGE, "p2", max_context=4096, price_per_hour=price),
        )
        await fleet.add(small, model=SMALL)
        await fleet.add(large, model=LARGE)
        made = Deck(routed, keys, http, client, {SMALL: small, LARGE: large})
        await routed.ready(2)
        await made.route(ROUTES)
        yield made
