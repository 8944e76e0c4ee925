"""Names that lead to models, as callers meet them: gateway, router and two workers as they are, engines scripted."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import pytest

from control_plane.contracts.errors import Unavailable
from control_plane.contracts.fleet import ModelView, RequestPhase, RequestView
from control_plane.contracts.grant import Grant
from control_plane.contracts.model_routes import ModelRoute, ModelRoutes
from control_plane.contracts.routing import Routing
from control_plane.contracts.worker import Load, WorkerState
from control_plane.gateway.calls import FELL_BACK
from control_plane.gateway.fallback_watch import LOOK_AGAIN_S
from control_plane.gateway.history.history import History
from control_plane.store import Database
from control_plane.store.journal import Journal
from tests.integration.gateway.rig import (
    CHAT,
    KEY,
    MODEL,
    Answer,
    Keys,
    PlayedRouter,
    Rig,
    chat_body,
    events,
    eventually,
    request,
    say,
    serving,
)
from tests.integration.gateway.store import keeping
from tests.integration.router.rig import Rig as Routed
from tests.integration.router.rig import rig as routing
from tests.scripted_worker import ScriptedServer, scripted_server
from tests.unit.gateway.fakes import until
from tests.unit.gateway.tokenizers import bundle

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


@pytest.fixture
async def here() -> AsyncIterator[Deck]:
    async with deck() as made:
        yield made


async def test_an_alias_through_the_official_client(here: Deck) -> None:
    raw = await here.client.chat.completions.with_raw_response.create(
        model="smart", messages=[{"role": "user", "content": "hi"}], max_tokens=8
    )
    answer = raw.parse()
    assert answer.model == SMALL, "the one that answered"
    assert raw.headers["x-inferdeck-model"] == SMALL
    assert raw.headers["x-inferdeck-model-reason"] == f"smart is {SMALL}"
    assert answer._request_id is not None
    view = await here.view(answer._request_id)
    assert (view.model, view.worker_id) == (SMALL, "w-small")
    assert view.choice is not None
    assert (view.choice.asked, view.choice.model, view.choice.reason) == ("smart", SMALL, f"smart is {SMALL}")


async def test_a_model_needs_no_reason(here: Deck) -> None:
    answer = await here.chat(LARGE)
    assert answer.json["model"] == answer.headers["x-inferdeck-model"] == LARGE
    assert "x-inferdeck-model-reason" not in answer.headers
    assert (await here.view(answer.headers["x-request-id"])).choice is None


@pytest.mark.parametrize("stream", [True, False])
async def test_simple_prompts_go_to_the_small_model_and_hard_ones_to_the_large_one(here: Deck, stream: bool) -> None:
    for content, model in (("hi", SMALL), (HARD, LARGE)):
        answer = await here.chat("auto", content, stream=stream)
        found = events(answer.body)[0]["model"] if stream else answer.json["model"]
        assert found == answer.headers["x-inferdeck-model"] == model
        assert "length" in answer.headers["x-inferdeck-model-reason"]
        view = await here.view(answer.headers["x-request-id"])
        assert view.choice is not None
        assert view.choice.score is not None
        assert [part.name for part in view.choice.score.parts] == ["length", "code", "questions", "reasoning", "output"]
        assert (view.choice.score.total >= view.choice.threshold) is (model == LARGE)
        assert "prove" not in repr(view.choice), "what a caller wrote is not on record"
    answer = await here.http.post("/v1/completions", json={"model": "auto", "prompt": HARD, "max_tokens": 2})
    assert answer.json()["model"] == LARGE


async def test_a_long_prompt_is_scored_beside_the_loop_and_decided_all_the_same(here: Deck) -> None:
    prompt = "word " * 900 + HARD
    answer = await here.would("auto", prompt)
    assert (answer.json["model"], answer.json["score"]["parts"][3]["found"]) == (LARGE, "prove, step by step, theorem")
    assert (await here.would("auto", "x" * 200_000)).json["model"] == LARGE


async def test_a_split_is_the_same_for_a_conversation_or_a_user(here: Deck) -> None:
    for user in ("ann", "bob", "cy"):
        assert len({(await here.would("blend", user=user)).json["model"] for _ in range(4)}) == 1
    assert len({(await here.would("blend", user=f"user {n}")).json["model"] for n in range(40)}) == 2
    assert len({(await here.would("blend")).json["model"] for _ in range(40)}) == 2
    one = {(await here.would("blend", user="ann", conversation=f"conv_{n}")).json["model"] for n in range(40)}
    assert len(one) == 2, "the conversation comes before the user"
    asked = (await here.would("blend", user="ann")).json["model"]
    assert (await here.chat("blend", user="ann")).json["model"] == asked


@pytest.mark.parametrize(
    ("asked", "header", "model"),
    [("auto", "small", SMALL), ("auto", "large", LARGE), ("auto", LARGE, LARGE), (SMALL, "safe", LARGE)],
)
async def test_the_header_decides(here: Deck, asked: str, header: str, model: str) -> None:
    answer = await here.chat(asked, HARD if model == SMALL else "hi", header)
    assert answer.json["model"] == model
    assert answer.headers["x-inferdeck-model-reason"].startswith(f"x-inferdeck-model: {header}")


@pytest.mark.parametrize(
    ("asked", "header"), [("auto", "nope"), (SMALL, "large"), ("smart", "small"), ("auto", "x" * 300)]
)
async def test_a_header_that_means_nothing_is_400_by_its_name(here: Deck, asked: str, header: str) -> None:
    for answer in (await here.chat(asked, "hi", header), await here.would(asked, "hi", header)):
        assert (answer.status, answer.error["param"]) == (400, "x-inferdeck-model")
    assert all(worker.engine.load().prompt_tokens == 0 for worker in here.workers.values())


async def test_what_leads_to_no_model_is_404(here: Deck) -> None:
    """A01."""
    for name in ("nope", "lost"):
        answer = await here.chat(name)
        assert (answer.status, answer.error["code"], answer.error["param"]) == (404, "model_not_found", "model")
    assert "'lost' leads to 'gone'" in (await here.chat("lost")).error["message"]


async def test_the_list_has_models_and_names_that_lead_to_them(here: Deck) -> None:
    """A01."""
    found = {model.id: model async for model in here.client.models.list()}
    assert {name: model.owned_by for name, model in found.items()} == {
        SMALL: "inferdeck",
        LARGE: "inferdeck",
        "smart": "inferdeck-alias",
        "auto": "inferdeck-auto",
        "blend": "inferdeck-split",
        "safe": "inferdeck-alias",
        "lost": "inferdeck-alias",
    }
    assert (await here.client.models.retrieve("auto")).model_extra == {"max_model_len": 2048}
    with pytest.raises(openai.NotFoundError):
        await here.client.models.retrieve("nope")


async def test_a_key_that_may_use_a_name_may_use_what_it_leads_to(here: Deck) -> None:
    await here.allow("auto", "smart")
    assert [model.id async for model in here.client.models.list()] == ["auto", "smart"]
    assert (await here.chat("auto", HARD)).json["model"] == LARGE
    assert (await here.chat("auto", "hi", "large")).status == 200
    assert (await here.chat("auto", "hi", LARGE)).status == 200, "auto may take it there anyway"
    for refused in (await here.chat(LARGE), await here.chat("smart", "hi", "safe"), await here.chat("nope")):
        assert (refused.status, refused.error["code"], refused.error["param"]) == (403, "model_not_allowed", "model")


async def test_a_key_limited_to_a_model_may_use_names_that_lead_nowhere_else(here: Deck) -> None:
    await here.allow(SMALL)
    assert [model.id async for model in here.client.models.list()] == [SMALL, "smart"]
    assert (await here.chat("smart")).json["model"] == SMALL
    for name in ("auto", "blend", "safe", "lost", LARGE):
        for refused in (await here.chat(name), await here.would(name)):
            assert (refused.status, refused.error["code"]) == (403, "model_not_allowed")
    assert (await here.chat("smart", "hi", LARGE)).status == 403


async def test_a_pool_without_healthy_workers_falls_back_only_where_the_policy_says_so(here: Deck) -> None:
    here.routed.fleet.change("w-large", cordoned=True)
    await until(lambda: not here.routed.router.dispatcher.catalogue.serves(LARGE))
    answer = await here.chat("safe")
    assert answer.json["model"] == SMALL
    reason = f"safe is {LARGE}; {LARGE} has no healthy worker: fallback {SMALL}"
    assert answer.headers["x-inferdeck-model-reason"] == reason
    view = await here.view(answer.headers["x-request-id"])
    assert view.choice is not None
    assert (view.choice.instead_of, view.choice.model) == (LARGE, SMALL)
    await here.allow("auto", LARGE, queue_deadline_s=0.0)
    assert (await here.chat("auto", HARD)).status == 503
    answer = await here.chat(LARGE)
    assert (answer.status, answer.error["code"]) == (503, "no_capacity")
    assert answer.headers["x-inferdeck-model"] == LARGE


async def kept_waiting(here: Deck, worker_id: str, model: str) -> None:
    """From now on calls of the model wait, since its worker is full."""
    instance = here.routed.fleet.workers[worker_id].instance_id
    load = Load(instance, time.time(), WorkerState.READY, kv_usage=0.95)
    here.routed.fleet.change(worker_id, load=load, load_age_s=0.0)
    candidates = here.routed.router.dispatcher.targets.candidates(model)
    await until(lambda: [candidate.kv_usage for candidate in candidates] == [0.95])


@pytest.mark.parametrize("stream", [True, False])
async def test_one_that_waits_takes_the_fallback_when_its_pool_is_lost(here: Deck, stream: bool) -> None:
    await kept_waiting(here, "w-large", LARGE)
    asked = asyncio.create_task(here.chat("safe", stream=stream))
    await until(lambda: here.routed.router.dispatcher.queued == 1)
    here.routed.fleet.change("w-large", cordoned=True)
    answer = await asked
    assert answer.status == 200
    model = events(answer.body)[0]["model"] if stream else answer.json["model"]
    assert model == answer.headers["x-inferdeck-model"] == SMALL
    reason = f"safe is {LARGE}; {LARGE} has no healthy worker any more: fallback {SMALL}"
    assert answer.headers["x-inferdeck-model-reason"] == reason

    def views() -> list[RequestView]:
        told = (view for report in here.routed.fleet.reports for view in report.ended)
        return [view for view in told if view.id == answer.headers["x-request-id"]]

    await until(lambda: len(views()) == 2)
    first, last = views()
    assert (first.model, first.phase, first.reason) == (LARGE, RequestPhase.CANCELLED, "fell_back")
    assert (last.model, last.phase, last.worker_id) == (SMALL, RequestPhase.FINISHED, "w-small")
    assert last.choice is not None
    assert (last.choice.asked, last.choice.instead_of) == ("safe", LARGE)
    assert [stage.name for stage in last.stages].count("queue") == 2, "what it waited before is told"
    await until(lambda: here.routed.router.dispatcher.queued == 0)


@pytest.mark.parametrize("stream", [True, False])
async def test_one_that_comes_back_from_its_pools_last_worker_takes_the_fallback(
    here: Deck, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It did not wait when it came, and was at the worker when it was looked at."""
    large = here.workers[LARGE]
    monkeypatch.setattr(large.engine, "submit", lambda call, sink: None)
    asked = asyncio.create_task(here.chat("safe", stream=stream))
    await until(lambda: here.routed.counts()["w-large"][0] == 1)
    await asyncio.sleep(1.5 * LOOK_AGAIN_S)
    await large.server.end(0.0)
    answer = await asked
    assert answer.status == 200
    assert answer.headers["x-inferdeck-model"] == SMALL
    assert answer.headers["x-inferdeck-model-reason"].endswith(f"has no healthy worker any more: fallback {SMALL}")
    await until(lambda: here.routed.router.dispatcher.queued == 0)


async def test_what_a_call_was_at_a_worker_it_has_not_waited() -> None:
    keys, router = Keys(), PlayedRouter({MODEL: bundle(), "spare": bundle()})
    keys.granted[KEY] = Grant("key-1", queue_deadline_s=1.0)
    router.leading = ModelRoutes({MODEL: ModelRoute(fallback=("spare",))})
    router.play = None
    async with serving(router, keys) as (_, http, _, _):
        body = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}
        asked = asyncio.create_task(http.post(CHAT, json=body))
        await until(lambda: router.submitted)
        await asyncio.sleep(1.5 * LOOK_AGAIN_S)
        router.sick.add(MODEL)
        router.submitted[0].handle.worker_id = ""
        router.submitted[0].handle.retries = 1
        await until(lambda: len(router.submitted) == 2)
        call = router.submitted[1].call
        assert call.attempts == 1, "another model is no new beginning for a call that its workers die of"
        assert call.queue_timeout_s is not None
        assert call.queue_timeout_s > 0.0
        [waited] = [stage for stage in call.stages if stage.name == "queue"]
        assert waited.start_s > 1.5 * LOOK_AGAIN_S
        say(router.submitted[1], [" word"])
        assert (await asked).json()["model"] == "spare"


async def test_a_call_counts_for_the_model_that_it_went_on_with_and_once() -> None:
    router = PlayedRouter({MODEL: bundle(), "spare": bundle()})
    router.leading = ModelRoutes({MODEL: ModelRoute(fallback=("spare",))})
    router.play = None
    async with serving(router, Keys()) as (_, http, _, _):
        asked = asyncio.create_task(http.post(CHAT, json={"model": MODEL, "messages": [HI]}))
        await until(lambda: router.submitted)
        router.sick.add(MODEL)
        router.submitted[0].handle.worker_id = ""
        await until(lambda: len(router.submitted) == 2)
        say(router.submitted[1], [" word"])
        tokens = (await asked).json()["usage"]["prompt_tokens"]
        figures = (await http.get("/metrics")).text
    assert f'inferdeck_gateway_prompt_tokens_total{{model="spare"}} {float(tokens)}' in figures
    assert 'inferdeck_gateway_prompt_size_tokens_count{model="spare"} 1.0' in figures
    for other in re.findall(rf'inferdeck_gateway_prompt_\w+{{model="{MODEL}".*}} (.+)', figures):
        assert float(other) == 0


async def test_one_that_waits_for_a_pool_without_a_fallback_waits_on(here: Deck) -> None:
    await kept_waiting(here, "w-large", LARGE)
    asked = asyncio.create_task(here.chat(LARGE))
    await until(lambda: here.routed.router.dispatcher.queued == 1)
    here.routed.fleet.change("w-large", cordoned=True)
    await asyncio.sleep(1.5 * LOOK_AGAIN_S)
    assert not asked.done()
    here.routed.fleet.change("w-large", cordoned=False, load=None)
    assert (await asked).json["model"] == LARGE


async def test_a_kept_answer_is_the_fallbacks_and_its_messages_are_there_once(tmp_path: Path) -> None:
    database = Database.open("", tmp_path / "deck.db", durable=True)
    history = History(database, Journal.open(tmp_path / "journals", "g1"))
    try:
        async with deck(history) as here:
            made = await here.client.conversations.create()
            await here.client.responses.create(model="smart", input="first", conversation=made.id)
            await kept_waiting(here, "w-large", LARGE)
            asking = asyncio.create_task(
                here.client.responses.create(model="safe", input="second", conversation=made.id)
            )
            await until(lambda: here.routed.router.dispatcher.queued == 1)
            here.routed.fleet.change("w-large", cordoned=True)
            answer = await asking
            assert answer.model == SMALL
            stored = await here.client.responses.retrieve(answer.id)
            assert (stored.model, stored.status) == (SMALL, answer.status)
            said = [item async for item in here.client.conversations.items.list(made.id, order="asc")]
            assert [item.role for item in said] == ["user", "assistant"] * 2  # type: ignore[union-attr]
    finally:
        database.close()


async def test_one_that_leaves_on_its_way_to_the_fallback_is_kept_as_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its messages are stored, and it has neither a worker nor an answer just then."""
    async with keeping("", tmp_path) as rig:
        router = rig.router
        router.bundles["spare"] = Unavailable("the spare model has no worker yet")
        router.leading = ModelRoutes({MODEL: ModelRoute(fallback=("spare",))})
        monkeypatch.setattr(router, "heard", lambda submitted: setattr(submitted.handle, "worker_id", ""))
        name = (await rig.post("/v1/conversations", {})).json["id"]
        client = await rig.connect()
        client.send(request(body=chat_body(stream=True, conversation=name)))
        submitted = await rig.call()
        router.sick.add(MODEL)
        await until(lambda: FELL_BACK in submitted.handle.cancelled)
        assert rig.gateway.stats().in_flight == 1
        client.reset()

        async def closed() -> bool:
            items = (await rig.get(f"/v1/conversations/{name}/items?order=asc")).json["data"]
            return [item["turn"]["status"] for item in items] == ["cancelled"] * 2

        await eventually(closed)
        await rig.idle()


async def test_tokens_are_those_of_the_one_model_that_a_name_leads_to(here: Deck) -> None:
    counts = [
        (await here.http.post("/tokenize", json={"model": name, "prompt": "hello"})).json()["count"]
        for name in (SMALL, "smart")
    ]
    assert counts[0] == counts[1] > 0
    answer = await here.http.post("/tokenize", json={"model": "auto", "prompt": "hello"})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "model"


async def test_a_change_of_the_policy_counts_for_the_next_call(here: Deck) -> None:
    assert (await here.chat("smart")).json["model"] == SMALL
    await here.route({"smart": ModelRoute(target=LARGE)})
    assert (await here.chat("smart")).json["model"] == LARGE
    assert (await here.chat("auto")).status == 404


async def test_what_it_would_cost_and_did_cost() -> None:
    async with deck(price=7.2) as here:
        told = (await here.would("auto", HARD)).json
        assert (told["price_per_hour"], told["ready_workers"], told["asked"]) == (7.2, 1, "auto")
        assert (await here.would("auto")).json["price_per_hour"] is None
        view = await here.view((await here.chat("auto", HARD)).headers["x-request-id"])
        assert view.worker_s > 0
        assert view.cost == pytest.approx(view.worker_s / 3600 * 7.2)
        view = await here.view((await here.chat("auto")).headers["x-request-id"])
        assert view.worker_s > 0
        assert view.cost == 0, "nobody has said what the small one costs"


async def test_a_conversation_goes_on_when_its_model_changes(tmp_path: Path) -> None:
    database = Database.open("", tmp_path / "deck.db", durable=True)
    history = History(database, Journal.open(tmp_path / "journals", "g1"))
    try:
        async with deck(history) as here:
            made = await here.client.conversations.create()
            asked = ["My name is Ada.", f"{HARD} For Ada.", "What is my name?"]
            models, prompts = [], []
            for content in asked:
                answer = await here.client.responses.create(model="auto", input=content, conversation=made.id)
                models.append(answer.model)
                prompts.append(answer.usage.input_tokens if answer.usage else 0)
            assert models == [SMALL, LARGE, SMALL]
            assert prompts == sorted(prompts), "each is asked with all that was said before"
            said = [item async for item in here.client.conversations.items.list(made.id, order="asc")]
            assert [item.role for item in said] == ["user", "assistant"] * 3  # type: ignore[union-attr]
            assert [json.loads(item.to_json())["content"][0]["text"] for item in said[::2]] == asked
    finally:
        database.close()


async def test_a_call_before_the_fleet_has_spoken_waits_and_then_has_its_name_looked_up(rig: Rig) -> None:
    router = rig.router
    router.leading = None
    router.bundles["smart"] = Unavailable("not joined yet")
    assert (await rig.post("/v1/route", {"model": "smart", "prompt": "x"})).status == 503
    asking = asyncio.create_task(rig.chat(model="smart"))
    await until(lambda: "smart" in router.asked)
    router.leading = ModelRoutes({"smart": ModelRoute(target=MODEL)})
    del router.bundles["smart"]
    answer = await asking
    assert (answer.status, answer.json["model"]) == (200, MODEL)
    await rig.idle()


async def test_a_key_that_may_not_use_all_hears_503_before_the_fleet_has_spoken(rig: Rig) -> None:
    rig.router.leading = None
    rig.keys.granted[KEY] = Grant("key-1", models=("other",))

    async def status() -> int:
        return (await rig.chat()).status

    async def comes_to(wanted: int) -> None:
        async def so() -> bool:
            return await status() == wanted

        await eventually(so)

    await comes_to(503)
    rig.router.leading = ModelRoutes()
    await comes_to(403)
