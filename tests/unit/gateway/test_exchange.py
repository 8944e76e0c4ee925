from __future__ import annotations

import pytest

from tests.unit.gateway.fakes import Wire, exchange_on


def body_of(data: bytes) -> bytes:
    return data.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize(
    "pieces", [[b""], [b"", b"a"], [b"", b"", b"a", b""], [b"a", b"", b"b"], [b"x" * 300, b""], []]
)
def test_only_the_end_of_a_chunked_body_is_a_chunk_of_no_bytes(pieces: list[bytes]) -> None:
    wire = Wire()
    exchange = exchange_on(wire, chunked=True)
    exchange.begin(200, b"", pieces[0] if pieces else b"")
    for piece in pieces[1:]:
        exchange.send(piece)
    exchange.finish()
    wanted = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece)
    assert body_of(wire.data) == wanted + b"0\r\n\r\n"


def test_a_stream_that_begins_with_nothing_sends_its_head() -> None:
    wire = Wire()
    exchange_on(wire, chunked=True).begin(200, b"x: y\r\n", b"")
    assert wire.data.startswith(b"HTTP/1.1 200 OK\r\n")
    assert wire.data.endswith(b"x: y\r\n\r\n")


def test_a_body_that_is_not_chunked_is_what_was_sent() -> None:
    wire = Wire()
    exchange = exchange_on(wire)
    exchange.begin(200, b"", b"")
    exchange.send(b"a")
    exchange.finish(b"b")
    assert body_of(wire.data) == b"ab"
