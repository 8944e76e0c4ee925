"""Who may ask for what, in which order that is checked, and what everyone hears."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator

import pytest

from control_plane.contracts.errors import DropReason, Unavailable
from control_plane.contracts.grant import Grant
from control_plane.gateway.auth import FRESH_S
from tests.integration.gateway.rig import (
    CHAT,
    COMPLETIONS,
    KEY,
    MODEL,
    Rig,
    chat_body,
    gateway,
    request,
    say,
)
from tests.unit.gateway.fakes import until
from tests.unit.gateway.tokenizers import bundle

PRIVATE = [
    ("POST", CHAT),
    ("POST", COMPLETIONS),
    ("GET", "/v1/models"),
    ("GET", f"/v1/models/{MODEL}"),
    ("GET", "/metrics"),
]


@pytest.mark.parametrize(("method", "path"), PRIVATE)
@pytest.mark.parametrize("header", [None, "Bearer ", "Basic x", "Bearer wrong", f"Bearer {KEY}x", KEY])
async def test_nothing_private_is_shown_without_a_key(rig: Rig, method: str, path: str, header: str | None) -> None:
    """A02, and SE03: not even metrics."""
    client = await rig.connect()
    fields = {} if header is None else {"authorization": header}
    client.send(request(f"{path}?key={KEY}&api_key={KEY}", b"{not json", method=method, key=None, **fields))
    answer = await client.answer()
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.error == {
        "message": "The API key is missing, wrong, expired or revoked. Send one as 'Authorization: Bearer KEY'.",
        "type": "invalid_request_error",
        "param": None,
        "code": "invalid_api_key",
    }
    assert rig.router.submitted == []


async def test_a_revoked_key(rig: Rig) -> None:
    """A02."""
    assert (await rig.chat()).status == 200
    del rig.keys.granted[KEY]
    statuses = {200}
    async for status in _statuses(rig):
        statuses.add(status)
        if status == 401:
            break
    assert statuses == {200, 401}


async def _statuses(rig: Rig, **headers: str) -> AsyncIterator[int]:
    async with asyncio.timeout(20):
        while True:
            yield (await rig.post(CHAT, chat_body(), **headers)).status
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    "path",
    [
        "/invocations",
        "/docs",
        "/sleep",
        "/reset_prefix_cache",
        "//v1/chat/completions",
        "/v1/../admin",
        "/v1/chat/completions/",
        "/V1/models",
        "/%76%31/models",
        "/v1/models/",
        "*",
        "/",
        "/health/x",
    ],
)
async def test_nothing_else_is_there(rig: Rig, path: str) -> None:
    """SE03."""
    for key in (None, KEY):
        client = await rig.connect()
        client.send(request(path, method="POST" if "chat" in path else "GET", key=key))
        answer = await client.answer()
        assert answer.status == 404
        assert answer.error["code"] == "unknown_url"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", CHAT, "POST"),
        ("DELETE", COMPLETIONS, "POST"),
        ("POST", "/v1/models", "GET, HEAD"),
        ("PUT", "/health", "GET, HEAD"),
        ("OPTIONS", CHAT, "POST"),
    ],
)
async def test_other_methods(rig: Rig, method: str, path: str, allowed: str) -> None:
    """A03."""
    client = await rig.connect()
    client.send(request(path, method=method, key=None))
    answer = await client.answer()
    assert answer.status == 405
    assert answer.headers["allow"] == allowed
    assert answer.error["code"] == "method_not_allowed"


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ("Application/JSON", 200),
        ("text/plain", 415),
        ("application/jsonx", 415),
        ("", 415),
        (None, 415),
    ],
)
async def test_media_types(rig: Rig, content_type: str | None, status: int) -> None:
    """A03."""
    client = await rig.connect()
    raw = request(body=chat_body())
    old = b"content-type: application/json\r\n"
    client.send(raw.replace(old, b"" if content_type is None else b"content-type: %b\r\n" % content_type.encode()))
    answer = await client.answer()
    assert answer.status == status
    if status == 415:
        assert answer.error["code"] == "unsupported_media_type"


async def test_encoded_bodies_are_not_read(rig: Rig) -> None:
    assert (await rig.post(CHAT, chat_body(), **{"content-encoding": "gzip"})).status == 415


@pytest.mark.parametrize("body", [b"[]", b"null", b"1", b'"x"', b"{", b"", b'{"a":NaN}', b"\xff"])
async def test_bodies_that_are_no_object(rig: Rig, body: bytes) -> None:
    """A03."""
    answer = await rig.post(CHAT, body)
    assert answer.status == 400
    assert answer.error["param"] is None


async def test_models_are_listed_whether_or_not_a_worker_is_up(rig: Rig) -> None:
    """A01."""
    rig.router.bundles["org/other"] = Unavailable("loading", reason=DropReason.MODEL_LOADING)
    listed = (await rig.get("/v1/models")).json
    assert listed["object"] == "list"
    assert [model["id"] for model in listed["data"]] == [MODEL, "org/other"]
    one = await rig.get("/v1/models/org/other")
    assert one.json == listed["data"][1]
    assert one.json["object"] == "model"
    assert isinstance(one.json["created"], int)
    assert (await rig.get("/v1/models/org%2Fother")).json == one.json
    missing = await rig.get("/v1/models/nope")
    assert (missing.status, missing.error["code"], missing.error["param"]) == (404, "model_not_found", "model")


async def test_models_that_do_not_exist_and_models_that_are_not_up() -> None:
    """A01."""
    async with gateway(wait_s=0.1) as rig:
        rig.router.bundles["cold"] = Unavailable("loading", reason=DropReason.MODEL_LOADING)
        answer = await rig.post(CHAT, chat_body() | {"model": "nope"})
        assert (answer.status, answer.error["code"], answer.error["param"]) == (404, "model_not_found", "model")
        for model in (None, ""):
            answer = await rig.post(CHAT, chat_body() | {"model": model})
            assert (answer.status, answer.error["param"]) == (400, "model")
        answer = await rig.post(CHAT, chat_body() | {"model": "cold"})
        assert (answer.status, answer.error["code"]) == (503, "model_loading")
        assert 1 <= int(answer.headers["retry-after"]) <= 60
        assert rig.router.submitted == []


async def test_a_call_is_held_until_its_models_first_worker_is_up(rig: Rig) -> None:
    rig.router.bundles["cold"] = Unavailable("loading", reason=DropReason.MODEL_LOADING)
    waiting = asyncio.create_task(rig.post(CHAT, chat_body() | {"model": "cold"}))
    await until(lambda: "cold" in rig.router.asked)
    rig.router.bundles["cold"] = bundle("unigram")
    assert (await waiting).status == 200


async def test_a_refusal_of_the_router_is_passed_on(rig: Rig) -> None:
    rig.router.refusal = Unavailable("7 requests wait already", reason=DropReason.OVERLOADED, retry_after_s=5.0)
    for stream in (True, False):
        answer = await rig.chat(stream=stream)
        assert (answer.status, answer.error["code"]) == (503, "overloaded")
        assert answer.headers["retry-after"] == "5"
    await rig.idle()


async def test_health_and_readiness_need_no_key(rig: Rig) -> None:
    rig.http.headers.pop("authorization")
    assert (await rig.get("/health")).json == {"status": "ok"}
    assert (await rig.get("/ready")).json == {"status": "ready"}
    rig.router.is_ready = False
    answer = await rig.get("/ready")
    assert (answer.status, answer.json) == (503, {"status": "no worker"})
    assert (await rig.get("/health")).status == 200


async def test_metrics_count_what_happened_and_tell_no_secrets(rig: Rig) -> None:
    """SE03 and SE05."""
    rig.router.play = lambda submitted: say(submitted, ["SENTINEL3", "x"])
    await rig.chat("SENTINEL2", stream=True)
    await rig.chat("SENTINEL2")
    await rig.chat(temperature=9)
    await rig.post(CHAT, chat_body() | {"model": "SENTINEL5"})
    await rig.get("/SENTINEL6")
    text = (await rig.get("/metrics")).body.decode()
    assert 'inferdeck_gateway_responses_total{route="chat",status="200"} 2.0' in text
    assert 'inferdeck_gateway_responses_total{route="chat",status="400"} 1.0' in text
    assert 'inferdeck_gateway_responses_total{route="chat",status="404"} 1.0' in text
    assert 'inferdeck_gateway_responses_total{route="other",status="404"} 1.0' in text
    assert 'inferdeck_gateway_rejections_total{reason="model_not_found"} 1.0' in text
    assert 'inferdeck_gateway_output_tokens_total{model="m"} 4.0' in text
    assert "inferdeck_gateway_in_flight 0.0" in text
    assert "SENTINEL" not in text
    assert KEY not in text


async def test_figures_for_the_fleet(rig: Rig) -> None:
    await rig.chat(max_tokens=3)
    await rig.chat(n=0)
    stats = rig.gateway.stats()
    assert stats.ready
    assert stats.responses == {200: 1, 400: 1}
    assert (stats.requests_total, stats.output_tokens_total, stats.in_flight) == (2, 3, 0)
    assert stats.rss_bytes > 10_000_000
    assert stats.cpu_s > 0


@pytest.mark.parametrize("good", ["abc", "01-2_3.4:5", "x" * 128])
async def test_a_callers_request_id_comes_back(rig: Rig, good: str) -> None:
    answer = await rig.post(CHAT, chat_body(), **{"x-request-id": good})
    assert answer.headers["x-request-id"] == good
    assert rig.router.submitted[-1].call.request_id == good
    assert answer.json["id"] == f"chatcmpl-{good}"


@pytest.mark.parametrize("bad", ["", "a b", "x" * 129, "-x", "a\x7f", '"', "ä"])
async def test_a_request_id_that_is_none_is_replaced(rig: Rig, bad: str) -> None:
    client = await rig.connect()
    client.send(request(body=chat_body(), x_request_id=bad))
    answer = await client.answer()
    if bad == "a\x7f":
        return
    assert answer.status == 200
    assert answer.headers["x-request-id"].startswith("req-")


async def test_every_answer_has_a_request_id_of_its_own(rig: Rig) -> None:
    seen = set()
    for answer in (await rig.chat(), await rig.chat(), await rig.get("/nowhere"), await rig.get("/health")):
        seen.add(answer.headers["x-request-id"])
    assert len(seen) == 4


async def test_a_request_id_in_use_is_not_given_twice(rig: Rig) -> None:
    rig.router.play = None
    first, second = [asyncio.create_task(rig.post(CHAT, chat_body(), **{"x-request-id": "same"})) for _ in range(2)]
    await rig.call(2)
    ids = {submitted.call.request_id for submitted in rig.router.submitted}
    assert len(ids) == 2
    assert "same" in ids
    for submitted in rig.router.submitted:
        say(submitted, ["x"])
    assert {(await first).headers["x-request-id"], (await second).headers["x-request-id"]} == ids


async def test_the_key_and_the_tenant_go_with_the_call(rig: Rig) -> None:
    rig.keys.granted["sk-other"] = Grant("key-2", "acme")
    await rig.chat()
    await rig.post(CHAT, chat_body(), authorization="Bearer sk-other")
    first, second = rig.router.submitted
    assert (first.call.key_id, first.call.cache_salt) == ("key-1", "")
    assert (second.call.key_id, second.call.cache_salt) == ("key-2", "acme")
    assert first.call.api == "chat"
    assert [stage.name for stage in first.call.stages] == ["auth", "tokenise"]
    assert all(stage.duration_s >= 0 for stage in first.call.stages)
    assert first.call.arrival_unix > 1_600_000_000


async def test_the_tier_goes_with_the_call_and_what_it_serves_first_is_lower(rig: Rig) -> None:
    rig.keys.granted["sk-first"] = Grant("k", priority=10, queue_deadline_s=60.0)
    rig.keys.granted["sk-last"] = Grant("k", priority=-10, queue_deadline_s=0.0)
    for key in ("first", "last"):
        await rig.post(CHAT, chat_body(), authorization=f"Bearer sk-{key}")
    told = [(submitted.call.priority, submitted.call.queue_timeout_s) for submitted in rig.router.submitted]
    assert told == [(-10, 60.0), (10, 0.0)]


async def test_a_store_that_hangs_stalls_nobody(rig: Rig) -> None:
    await rig.chat()
    release = threading.Event()
    rig.keys.delay = lambda: release.wait(60)
    rig.keys.granted["sk-new"] = Grant("key-2")
    try:
        await asyncio.sleep(1.1 * FRESH_S)
        new = asyncio.create_task(rig.post(CHAT, chat_body(), authorization="Bearer sk-new"))
        await asyncio.sleep(0.02)
        assert (await rig.chat()).status == 200
        answer = await new
        assert (answer.status, answer.error["code"]) == (503, "no_capacity")
        assert (await rig.chat()).status == 200
    finally:
        release.set()
    async for status in _statuses(rig, authorization="Bearer sk-new"):
        assert status in (200, 503)
        if status == 200:
            break


async def test_a_key_that_was_just_made_is_good_soon(rig: Rig) -> None:
    await rig.chat()
    rig.keys.granted["sk-new"] = Grant("key-2")
    async for status in _statuses(rig, authorization="Bearer sk-new"):
        assert status in (200, 401)
        if status == 200:
            break


async def test_wrong_keys_are_told_of_together(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "control_plane.gateway"):
        for index in range(20):
            await rig.post(CHAT, chat_body(), authorization=f"Bearer wrong-{index}")
    (told,) = [record for record in caplog.records if "valid key" in record.getMessage()]
    assert vars(told)["requests"] == 1
    assert not [record for record in caplog.records if getattr(record, "status", 0) == 401]


async def test_logs_tell_what_happened_and_no_secrets(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """SE05."""
    with caplog.at_level(logging.DEBUG):
        rig.router.play = lambda submitted: say(submitted, ["SENTINEL3"])
        await rig.chat("SENTINEL2", stream=True)
        await rig.chat("SENTINEL2", temperature=9)
        await rig.post(CHAT, b'{"SENTINEL2": ', **{"x-request-id": "r-1"})
        await rig.post(CHAT, chat_body("SENTINEL2"), authorization="Bearer SENTINEL1")
        await rig.post(CHAT, chat_body("SENTINEL2") | {"model": "nope"})
        await rig.get("/v1/models?key=SENTINEL1")
    ours = [record for record in caplog.records if record.name.startswith("control_plane")]
    text = "\n".join(f"{record.getMessage()} {vars(record)}" for record in ours)
    assert "SENTINEL" not in text
    assert KEY not in text
    refused = next(record for record in ours if getattr(record, "request_id", "") == "r-1")
    assert (vars(refused)["status"], vars(refused)["reason"]) == (400, "invalid_request")


async def test_a_key_sees_and_calls_only_the_models_it_may(rig: Rig) -> None:
    """A01: models are 200 from the registry, those that are allowed for that key."""
    rig.keys.granted["sk-other"] = Grant("key-2", models=("elsewhere",))
    rig.keys.granted["sk-both"] = Grant("key-3", models=("elsewhere", MODEL))
    other, both = {"authorization": "Bearer sk-other"}, {"authorization": "Bearer sk-both"}
    for headers, names in ((other, []), (both, [MODEL]), ({}, [MODEL])):
        listed = await rig.http.get("/v1/models", headers=headers)
        assert [entry["id"] for entry in listed.json()["data"]] == names
    assert (await rig.http.get(f"/v1/models/{MODEL}", headers=both)).status_code == 200
    hidden = await rig.http.get(f"/v1/models/{MODEL}", headers=other)
    unknown = await rig.http.get("/v1/models/nope", headers=other)
    assert hidden.status_code == unknown.status_code == 404
    assert hidden.json() == unknown.json()
    assert (await rig.post(CHAT, chat_body(), authorization="Bearer sk-both")).status == 200
    calls = len(rig.router.submitted)
    for path, body in ((CHAT, chat_body()), (COMPLETIONS, {"model": MODEL, "prompt": "hi"})):
        for model in (MODEL, "nope"):
            refused = await rig.post(path, body | {"model": model}, authorization="Bearer sk-other")
            assert refused.status == 403
            assert refused.error["code"] == "model_not_allowed"
            assert refused.error["param"] == "model"
            assert refused.error["type"] == "invalid_request_error"
    assert len(rig.router.submitted) == calls


async def test_a_schema_that_is_wrong_is_told_before_a_model_that_is_not_allowed(rig: Rig) -> None:
    rig.keys.granted["sk-other"] = Grant("key-2", models=("elsewhere",))
    answer = await rig.post(CHAT, chat_body() | {"temperature": 9}, authorization="Bearer sk-other")
    assert (answer.status, answer.error["param"]) == (400, "temperature")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/tokenize"),
        ("POST", "/detokenize"),
        ("POST", "/v1/responses"),
        ("GET", "/v1/responses/resp_1"),
        ("POST", "/v1/conversations"),
        ("GET", "/v1/conversations"),
        ("DELETE", "/v1/conversations/conv_1"),
        ("GET", "/v1/conversations/conv_1/items"),
    ],
)
async def test_what_is_kept_wants_a_key(rig: Rig, method: str, path: str) -> None:
    """SE03: tokens, conversations and responses are nobody's without a key."""
    for key in (None, "sk-inferdeck-wrong"):
        client = await rig.connect()
        client.send(request(path, b"{}" if method == "POST" else b"", method=method, key=key))
        assert (await client.answer()).status == 401
