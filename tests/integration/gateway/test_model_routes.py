"""Names that lead to models, as callers meet them: gateway, router and two workers as they are, engines scripted."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import openai
import pytest

from control_plane.contracts.errors import Unavailable
from control_plane.contracts.grant import Grant
from control_plane.contracts.model_routes import ModelRoute, ModelRoutes
from control_plane.gateway.history.history import History
from control_plane.store import Database
from control_plane.store.journal import Journal
from tests.integration.gateway.deck import HARD, LARGE, SMALL, Deck, deck
from tests.integration.gateway.rig import KEY, MODEL, Rig, events, eventually
from tests.unit.gateway.fakes import until


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
