"""What comes over a connection that no polite client sends, and that the others do not notice."""

from __future__ import annotations

import asyncio
import json

import pytest

from control_plane.contracts.worker import Delta
from tests.integration.gateway.rig import (
    CHAT,
    KEY,
    Rig,
    chat_body,
    echo_words,
    events,
    gateway,
    joined,
    request,
    say,
)
from tests.unit.gateway.fakes import until

SHORT = 0.3


async def test_a_request_in_single_bytes_is_the_same_request(rig: Rig) -> None:
    client = await rig.connect()
    for byte in request(body=chat_body()):
        client.send(bytes([byte]))
        await asyncio.sleep(0)
    assert (await client.answer()).status == 200


async def test_a_connection_serves_one_request_after_the_other(rig: Rig) -> None:
    client = await rig.connect()
    for _ in range(3):
        client.send(request(body=chat_body()))
        answer = await client.answer()
        assert answer.status == 200
        assert "connection" not in answer.headers
    client.send(request("/v1/models", method="GET", key="wrong"))
    assert (await client.answer()).status == 401
    client.send(request("/health", method="GET", connection="close"))
    answer = await client.answer()
    assert answer.headers["connection"] == "close"
    assert await client.ended() == b""


async def test_pipelined_requests_are_answered_in_their_order(rig: Rig) -> None:
    rig.router.play = None
    client = await rig.connect()
    client.send(
        request(body=chat_body("first"))
        + request("/v1/models", method="GET")
        + request("/nowhere", method="GET")
        + request(body=chat_body("second", stream=True))
    )
    first = await rig.call()
    assert len(rig.router.submitted) == 1
    say(first, ["one"])
    assert (await client.answer()).json["choices"][0]["message"]["content"] == "one"
    assert (await client.answer()).json["object"] == "list"
    assert (await client.answer()).status == 404
    say(await rig.call(2), ["two"])
    assert joined((await client.answer()).body) == "two"


async def test_too_many_pipelined_requests_end_the_connection_after_those_that_may_be(rig: Rig) -> None:
    rig.router.play = None
    client = await rig.connect()
    client.send(request(body=chat_body()))
    submitted = await rig.call()
    client.send(request("/health", method="GET") * 50)
    await asyncio.sleep(0.05)
    say(submitted, ["one"])
    assert (await client.answer()).json["choices"][0]["message"]["content"] == "one"
    assert [(await client.answer()).status for _ in range(9)] == [200] * 8 + [400]
    assert await client.ended() == b""
    client = await rig.connect()
    client.send(request("/health", method="GET") * 50)
    assert [(await client.answer()).status for _ in range(10)] == [200] * 9 + [400]
    assert await client.ended() == b""


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
        b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
        b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        b"Content-Length: +3\r\n\r\nabc",
        b"Content-Length: -1\r\n\r\nabc",
        b"Content-Length: 3, 3\r\n\r\nabc",
        b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
        b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        b"X: a\r\n b\r\n\r\n",
        b"X: a\r\nHost: two\r\n\r\n",
        b"X: a\nContent-Length: 3\n\nabc",
        b"X: \x00\r\n\r\n",
        b"\x00X: 1\r\n\r\n",
    ],
    ids=lambda head: repr(head[:40]),
)
async def test_a_request_whose_end_is_in_doubt_is_refused_and_the_connection_closed(rig: Rig, head: bytes) -> None:
    """SE07: ambiguous framing."""
    client = await rig.connect()
    start = b"POST /v1/chat/completions HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer %b\r\n" % KEY.encode()
    client.send(start + b"Content-Type: application/json\r\n" + head + request("/health", method="GET"))
    answer = await client.answer()
    assert answer.status == 400
    assert answer.error["type"] == "invalid_request_error"
    assert answer.headers["connection"] == "close"
    assert await client.ended() == b""
    assert rig.router.submitted == []


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"hello\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/2.0\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET /\x80 HTTP/1.1\r\nHost: t\r\n\r\n",
        b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n",
        b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
    ids=lambda data: repr(data[:24]),
)
async def test_what_is_no_http_of_ours_is_told_so(rig: Rig, data: bytes) -> None:
    client = await rig.connect()
    client.send(data)
    answer = await client.answer()
    assert answer.status == 400
    assert answer.error["code"] == "invalid_request"
    assert await client.ended() == b""


@pytest.mark.parametrize(
    "head",
    [
        b"X: " + b"x" * 10_000_000,
        b"".join(b"X-%d: y\r\n" % index for index in range(10_000)),
        b"".join(b"X-%d: y\r\n" % index for index in range(101)) + b"\r\n",
        b"X: " + b"x" * 40_000 + b"\r\n\r\n",
    ],
    ids=["10 MB header", "10k headers", "101 headers", "40 kB header"],
)
async def test_heads_are_bounded(rig: Rig, head: bytes) -> None:
    """SE07."""
    client = await rig.connect()
    client.send(b"GET /health HTTP/1.1\r\nHost: t\r\n" + head)
    answer = await client.answer()
    assert answer.status == 431
    assert answer.error["code"] == "headers_too_large"
    client.writer.transport.abort()


async def test_a_long_url_is_bounded_too(rig: Rig) -> None:
    client = await rig.connect()
    client.send(b"GET /" + b"x" * 40_000 + b" HTTP/1.1\r\nHost: t\r\n\r\n")
    assert (await client.answer()).status == 431


async def test_a_head_of_ordinary_size_is_served(rig: Rig) -> None:
    client = await rig.connect()
    client.send(request("/health", method="GET", **{f"x_{index}": "y" * 200 for index in range(90)}))
    assert (await client.answer()).status == 200


async def test_bodies_are_bounded_by_what_they_say_of_themselves(rig: Rig) -> None:
    """SE02: a message of megabytes."""
    client = await rig.connect()
    client.send(request(body=b"{}", content_length=str(3 * 1024 * 1024)))
    answer = await client.answer()
    assert answer.status == 413
    assert answer.error["code"] == "request_too_large"
    assert answer.headers["connection"] == "close"


async def test_bodies_are_bounded_while_they_are_read(rig: Rig) -> None:
    client = await rig.connect()
    client.send(request(length=False, transfer_encoding="chunked", content_type="application/json"))
    for _ in range(5):
        client.send(b"80000\r\n" + b"x" * 0x80000 + b"\r\n")
    answer = await client.answer()
    assert answer.status == 413
    assert rig.gateway.held == 0


async def test_a_body_in_single_bytes_costs_what_the_body_does(rig: Rig) -> None:
    client = await rig.connect()
    body = json.dumps(chat_body("x" * 100)).encode()
    client.send(request(length=False, transfer_encoding="chunked", content_type="application/json"))
    client.send(b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\nTrailer: x\r\nHost: y\r\n\r\n")
    assert (await client.answer()).status == 200
    assert rig.gateway.held == 0


async def test_a_refusal_reaches_a_client_that_is_still_sending(rig: Rig) -> None:
    client = await rig.connect()
    client.send(request(body=b"x" * 1_000_000, key="wrong", content_length="2000000"))
    answer = await client.answer()
    assert answer.status == 401
    client.send(b"x" * 1_000_000)
    assert await client.ended() == b""


async def test_all_bodies_together_are_bounded() -> None:
    async with gateway(bodies_bytes=1000) as rig:
        first, second = await rig.connect(), await rig.connect()
        first.send(request(body=b"x" * 900, content_length="1800"))
        await until(lambda: rig.gateway.held == 900)
        second.send(request(body=b"x" * 900))
        answer = await second.answer()
        assert answer.status == 503
        assert answer.error["code"] == "overloaded"
        first.close()
        await until(lambda: rig.gateway.held == 0)


async def test_a_request_that_trickles_in_is_cut_off() -> None:
    """SE07: an absolute deadline."""
    async with gateway(head_s=SHORT, receive_s=2 * SHORT) as rig:
        silent, slow_head, slow_body = [await rig.connect() for _ in range(3)]
        slow_body.send(request(body=b"{", content_length="100"))

        async def trickle(data: bytes) -> None:
            while True:
                slow_head.send(data)
                slow_body.send(b" ")
                await asyncio.sleep(0.02)

        slow_head.send(b"GET /health HTTP/1.1\r\nHost: t\r\nX: ")
        trickling = asyncio.create_task(trickle(b"x"))
        try:
            for client in (slow_head, slow_body):
                answer = await client.answer()
                assert answer.status == 408
                assert answer.headers["x-should-retry"] == "false"
            assert await silent.ended() == b""
        finally:
            trickling.cancel()


async def test_an_answer_may_take_longer_than_a_request(rig: Rig) -> None:
    """SE07: long responses are exempt."""
    async with gateway(head_s=SHORT, receive_s=SHORT, idle_s=SHORT) as rig:
        rig.router.play = None
        client = await rig.connect()
        client.send(request(body=chat_body()))
        submitted = await rig.call()
        await asyncio.sleep(4 * SHORT)
        say(submitted, ["late"])
        assert (await client.answer()).status == 200
        assert await client.ended() == b""


async def test_slow_requests_and_silent_sockets_do_not_disturb_others() -> None:
    """SE07."""
    async with gateway(connections=400) as rig:
        for index in range(200):
            client = await rig.connect()
            if index % 2:
                client.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: t\r\nX-")
        answers = await asyncio.gather(*(rig.chat() for _ in range(50)))
        assert {answer.status for answer in answers} == {200}


async def test_more_connections_than_there_may_be_are_dropped() -> None:
    async with gateway(connections=3) as rig:
        clients = [await rig.connect() for _ in range(5)]
        await until(lambda: sum(client.reader.at_eof() for client in clients) == 2)
        clients[0].send(request("/health", method="GET"))
        assert (await clients[0].answer()).status == 200
        clients[0].send(request("/metrics", method="GET"))
        assert b"inferdeck_gateway_connections_dropped_total 2.0" in (await clients[0].answer()).body


async def test_a_client_that_waits_to_be_asked_for_the_body_is_asked(rig: Rig) -> None:
    client = await rig.connect()
    body = json.dumps(chat_body()).encode()
    whole = request(body=body, expect="100-continue")
    client.send(whole.removesuffix(body))
    assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    client.send(body)
    assert (await client.answer()).status == 200


async def test_a_client_that_would_be_refused_anyway_is_not_asked_for_the_body(rig: Rig) -> None:
    client = await rig.connect()
    client.send(request(expect="100-continue", content_length="100", key="wrong", content_type="application/json"))
    assert (await client.answer()).status == 401


@pytest.mark.parametrize("fields", [{"connection": "Upgrade, HTTP2-Settings", "upgrade": "h2c", "http2_settings": "A"}])
async def test_an_offer_of_another_protocol_is_passed_over(rig: Rig, fields: dict[str, str]) -> None:
    client = await rig.connect()
    whole = request(body=chat_body("ä" * 150), **fields)
    client.send(whole[:-100])
    await asyncio.sleep(0.02)
    client.send(whole[-100:] + request("/health", method="GET", **fields))
    assert (await client.answer()).status == 200
    assert (await client.answer()).json == {"status": "ok"}
    client.send(request("/v1/models", method="GET"))
    assert (await client.answer()).status == 200


async def test_head_has_no_body(rig: Rig) -> None:
    client = await rig.connect()
    client.send(request("/health", method="HEAD") + request("/health", method="GET"))
    assert (await client.answer(head_only=True)).headers["content-length"] == "15"
    assert (await client.answer()).json == {"status": "ok"}


async def test_http_1_0(rig: Rig) -> None:
    client = await rig.connect()
    client.send(request("/health", method="GET", version="1.0"))
    answer = await client.answer()
    assert answer.headers["connection"] == "close"
    assert await client.ended() == b""
    client = await rig.connect()
    client.send(request("/health", method="GET", version="1.0", connection="keep-alive"))
    assert (await client.answer()).headers["connection"] == "keep-alive"
    client.send(request(body=chat_body(stream=True), version="1.0", connection="keep-alive"))
    answer = await client.answer()
    assert "transfer-encoding" not in answer.headers
    assert events(answer.body)[-1] == "[DONE]"


async def test_a_url_may_name_the_host(rig: Rig) -> None:
    client = await rig.connect()
    client.send(request("http://test/v1/models?x=1", method="GET"))
    assert (await client.answer()).status == 200


async def test_a_slow_reader_pauses_only_itself(rig: Rig) -> None:
    rig.router.play = None
    slow = await rig.connect()
    slow.writer.get_extra_info("socket")
    slow.writer.transport.pause_reading()  # type: ignore[attr-defined]
    slow.send(request(body=chat_body(stream=True)))
    submitted = await rig.call()
    piece = "x" * 1000
    for _ in range(600):
        submitted.sink.delta(Delta(1, [5], piece))
        await asyncio.sleep(0)
    rig.router.play = echo_words
    answers = await asyncio.gather(*(rig.chat(stream=True) for _ in range(20)))
    assert all(events(answer.body)[-1] == "[DONE]" for answer in answers)
    say(submitted, ["end"])
    assert submitted.handle.cancelled == []
    slow.writer.transport.resume_reading()  # type: ignore[attr-defined]
    answer = await slow.answer()
    assert joined(answer.body) == piece * 600 + "end"
    assert events(answer.body)[-1] == "[DONE]"


async def test_a_reader_that_has_stopped_is_dropped_and_its_call_cancelled() -> None:
    async with gateway(stall_s=SHORT) as rig:
        rig.router.play = None
        client = await rig.connect()
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        client.send(request(body=chat_body(stream=True)))
        submitted = await rig.call()
        for _ in range(300):
            submitted.sink.delta(Delta(1, [5], "x" * 30_000))
            await asyncio.sleep(0)
        await until(lambda: submitted.handle.cancelled)
        await rig.idle()


async def test_each_piece_is_sent_at_once(rig: Rig) -> None:
    """S04: each token is flushed."""
    rig.router.play = None
    client = await rig.connect()
    client.send(request(body=chat_body(stream=True)))
    submitted = await rig.call()
    submitted.sink.delta(Delta(1, [5], "0"))
    await client.reader.readuntil(b"\r\n\r\n")
    received = client.chunks()
    async with asyncio.timeout(20):
        assert len(events(await anext(received))) == 2
        for index in range(1, 20):
            submitted.sink.delta(Delta(1, [5], str(index)))
            assert joined(await anext(received)) == str(index)


async def test_statuses_are_the_same_under_load(rig: Rig) -> None:
    """A03: at many calls at once."""
    wanted = [200, 400, 415, 401, 405, 404] * 17
    answers = await asyncio.gather(
        *(
            make()
            for _ in range(17)
            for make in (
                lambda: rig.post(CHAT, chat_body()),
                lambda: rig.post(CHAT, b"{"),
                lambda: rig.post(CHAT, chat_body(), **{"content-type": "text/plain"}),
                lambda: rig.post(CHAT, chat_body(), authorization="Bearer wrong"),
                lambda: rig.get(CHAT),
                lambda: rig.get("/nowhere"),
            )
        )
    )
    assert [answer.status for answer in answers] == wanted
