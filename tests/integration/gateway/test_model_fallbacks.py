"""Calls that go on with another model when the pool of theirs is lost."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path

import pytest

from control_plane.contracts.errors import Unavailable
from control_plane.contracts.fleet import RequestPhase, RequestView
from control_plane.contracts.grant import Grant
from control_plane.contracts.model_routes import ModelRoute, ModelRoutes
from control_plane.contracts.worker import Load, WorkerState
from control_plane.gateway.calls import FELL_BACK
from control_plane.gateway.fallback_watch import LOOK_AGAIN_S
from control_plane.gateway.history.history import History
from control_plane.store import Database
from control_plane.store.journal import Journal
from tests.integration.gateway.deck import HARD, HI, LARGE, SMALL, Deck, deck
from tests.integration.gateway.rig import (
    CHAT,
    KEY,
    MODEL,
    Keys,
    PlayedRouter,
    chat_body,
    events,
    eventually,
    request,
    say,
    serving,
)
from tests.integration.gateway.store import keeping
from tests.unit.gateway.fakes import until
from tests.unit.gateway.tokenizers import bundle


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
