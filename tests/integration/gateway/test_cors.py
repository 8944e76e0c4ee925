"""Browsers of other origins: nothing is said to them unless the settings name their page."""

from __future__ import annotations

from tests.integration.gateway.rig import CHAT, KEY, Rig, chat_body, gateway, request

PAGE = "https://app.example.com"
ASK = {"origin": PAGE, "access_control_request_method": "POST", "access_control_request_headers": "authorization"}


async def test_off_by_default(rig: Rig) -> None:
    client = await rig.connect()
    client.send(request(CHAT, method="OPTIONS", key=None, **ASK) + request(body=chat_body(), origin=PAGE))
    preflight, answer = await client.answer(), await client.answer()
    assert (preflight.status, answer.status) == (405, 200)
    assert not [name for found in (preflight, answer) for name in found.headers if "access-control" in name]


async def test_a_page_that_is_named_may_call_and_asks_without_a_key() -> None:
    async with gateway(options={"cors_origins": (PAGE,)}) as rig:
        client = await rig.connect()
        client.send(request(CHAT, method="OPTIONS", key=None, **ASK))
        preflight = await client.answer(head_only=True)
        assert preflight.status == 204
        assert preflight.headers["access-control-allow-origin"] == PAGE
        assert preflight.headers["access-control-allow-methods"] == "POST"
        assert preflight.headers["access-control-allow-headers"] == "authorization"
        client.send(request(body=chat_body(), origin=PAGE))
        assert (await client.answer()).headers["access-control-allow-origin"] == PAGE
        client.send(request(body=chat_body(stream=True), origin=PAGE))
        assert (await client.answer()).headers["access-control-allow-origin"] == PAGE
        client.send(request(body=chat_body(), key=None, origin=PAGE))
        refused = await client.answer()
        assert (refused.status, refused.headers["access-control-allow-origin"]) == (401, PAGE)


async def test_other_pages_and_other_urls_get_no_more_than_before() -> None:
    async with gateway(options={"cors_origins": (PAGE,)}) as rig:
        client = await rig.connect()
        client.send(request(CHAT, method="OPTIONS", key=None, **{**ASK, "origin": "https://evil.example.com"}))
        refused = await client.answer()
        assert (refused.status, "access-control-allow-origin" in refused.headers) == (405, False)
        client.send(request("/nowhere", method="OPTIONS", key=None, **ASK))
        assert (await client.answer()).status == 404
        client.send(request(CHAT, method="OPTIONS", key=KEY, origin=PAGE))
        assert (await client.answer()).status == 405
