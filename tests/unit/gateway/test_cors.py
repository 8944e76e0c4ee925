from __future__ import annotations

import pytest

from control_plane.gateway.cors import Cors

PAGE = b"https://app.example.com"


def test_without_origins_no_line_is_said_and_nothing_is_a_preflight() -> None:
    cors = Cors(())
    fields = {b"origin": PAGE, b"access-control-request-method": b"POST"}
    assert cors.lines(fields) == b""
    assert cors.preflight(b"OPTIONS", fields, (b"POST",)) is None


def test_an_origin_is_allowed_exactly() -> None:
    cors = Cors((PAGE.decode(),))
    assert b"access-control-allow-origin: https://app.example.com\r\n" in cors.lines({b"origin": PAGE})
    for origin in (
        b"https://app.example.com.evil.org",
        b"http://app.example.com",
        b"null",
        b"*",
        PAGE + b"/",
        PAGE + b":1",
    ):
        assert cors.lines({b"origin": origin}) == b"vary: origin\r\n"
        asked = {b"origin": origin, b"access-control-request-method": b"POST"}
        assert cors.preflight(b"OPTIONS", asked, (b"POST",)) is None
    assert cors.lines({}) == b"vary: origin\r\n"


def test_nothing_says_star_or_credentials() -> None:
    cors = Cors((PAGE.decode(),))
    fields = {b"origin": PAGE, b"access-control-request-method": b"POST"}
    said = cors.lines(fields) + (cors.preflight(b"OPTIONS", fields, (b"POST",)) or b"")
    assert b"*" not in said
    assert b"credentials" not in said


@pytest.mark.parametrize(
    ("asked", "allowed"),
    [
        (b"authorization, content-type", b"access-control-allow-headers: authorization, content-type\r\n"),
        (b"authorization,x-stainless-lang", b"access-control-allow-headers: authorization,x-stainless-lang\r\n"),
        (b"", b""),
        (b"a b", b""),
        (b"a: b", b""),
        (b",".join([b"x"] * 100), b""),
    ],
)
def test_a_preflight_allows_the_headers_that_it_asks_for_where_they_are_names(asked: bytes, allowed: bytes) -> None:
    fields = {b"origin": PAGE, b"access-control-request-method": b"POST", b"access-control-request-headers": asked}
    lines = Cors((PAGE.decode(),)).preflight(b"OPTIONS", fields, (b"GET", b"HEAD"))
    assert lines == b"access-control-allow-methods: GET, HEAD\r\n" + allowed + b"access-control-max-age: 600\r\n"
