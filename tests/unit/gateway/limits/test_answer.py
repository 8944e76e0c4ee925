from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.contracts.grant import Grant
from control_plane.contracts.policy import Limits
from control_plane.gateway.error_body import error_body, error_headers
from control_plane.gateway.limits.answer import duration, limit_headers, throttled
from control_plane.gateway.limits.scope import scopes_of, shares_of
from control_plane.gateway.limits.spending import Wish
from control_plane.gateway.limits.verdict import Refusal, Standing

BOTH = scopes_of(Grant("k", "t", limits=Limits(rpm=10, tpm=1000), tenant_limits=Limits(rpm=20, tpm=500)))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.0001, "1ms"), (0.012, "12ms"), (1, "1s"), (7.66, "7.66s"), (59.9999, "1m0s"), (360, "6m0s")],
)
def test_durations_are_written_as_go_does(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@given(st.floats(0, 600))
def test_a_duration_is_never_too_short(seconds: float) -> None:
    match = re.fullmatch(r"(?:(\d+)m)?([\d.]+)(ms|s)", duration(seconds))
    assert match
    minutes, number, unit = match.groups()
    told = int(minutes or 0) * 60 + float(number) / (1000 if unit == "ms" else 1)
    assert seconds - 1e-6 <= told <= seconds + 0.0011


def test_the_tightest_of_key_and_tenant_is_told() -> None:
    lines = limit_headers(BOTH, (Standing(4, 300, 30.0, 29.0), Standing(4, 100, 12.0, 12.5))).decode()
    assert dict(line.split(": ") for line in lines.splitlines()) == {
        "x-ratelimit-limit-requests": "10",
        "x-ratelimit-remaining-requests": "6",
        "x-ratelimit-reset-requests": "30s",
        "x-ratelimit-limit-tokens": "500",
        "x-ratelimit-remaining-tokens": "400",
        "x-ratelimit-reset-tokens": "12.5s",
    }


def test_nothing_is_told_of_what_has_no_limit() -> None:
    """L01: unlimited omits."""
    assert scopes_of(Grant("k")) == ()
    assert limit_headers((), ()) == b""
    only = scopes_of(Grant("k", limits=Limits(concurrency=1)))
    assert limit_headers(only, (Standing(),)) == b""


def test_what_is_left_is_never_negative() -> None:
    assert b"x-ratelimit-remaining-tokens: 0\r\n" in limit_headers(
        BOTH, (Standing(1, 4000, 1.0, 1.0), Standing(1, 4000, 1.0, 1.0))
    )


@pytest.mark.parametrize(("limit", "kind"), [("rpm", "requests"), ("tpm", "tokens"), ("concurrency", "requests")])
def test_a_refusal_says_which_limit_and_when(limit: str, kind: str) -> None:
    """L02: the type follows the limit, Retry-After is whole seconds, rounded up."""
    scope = scopes_of(Grant("k", limits=Limits(rpm=60, tpm=61, concurrency=62)))[0]
    error = throttled(Refusal(scope, limit, 59, 7, 12.3))  # type: ignore[arg-type]
    assert f'"type":"{kind}"'.encode() in error_body(error)
    assert b'"param":null,"code":"rate_limit_exceeded"' in error_body(error)
    bound = {"rpm": 60, "tpm": 61, "concurrency": 62}[limit]
    assert f"limit {bound}, used 59, asked 7" in error.message
    assert b"retry-after: 13\r\n" in error_headers(error)
    assert b"x-should-retry" not in error_headers(error)


SENT, ABSENT = Wish("max_tokens", None), Wish("max_completion_tokens", 1024)


def test_what_can_never_fit_is_not_to_be_tried_again() -> None:
    """L02: every 429 has Retry-After; a never-satisfiable one sets x-should-retry:false, and waits for the longest."""
    error = throttled(Refusal(BOTH[1], "tpm", 0, 501, None), SENT)
    assert error_headers(error) == b"retry-after: 60\r\nx-should-retry: false\r\n"
    assert error.message == (
        "Request too large: tokens per minute of this API key's tenant: limit 500, used 0, asked 501. "
        "It can never fit into this limit. Shorten the prompt, or lower max_tokens or n."
    )


def test_a_prompt_that_can_never_fit_is_not_told_of_a_bound_that_would_not_help() -> None:
    error = throttled(Refusal(BOTH[1], "tpm", 0, 501, None), ABSENT)
    assert error.message.endswith("It can never fit into this limit. Shorten the prompt, or lower n.")


def test_a_call_without_a_bound_is_told_what_it_reserves_for_that() -> None:
    error = throttled(Refusal(BOTH[0], "tpm", 300, 1004, 12.0), ABSENT)
    assert error.message.endswith(
        "Try again in 12s. max_completion_tokens is absent, so tokens are reserved for the answer: the tier's default "
        "of 1024 for each choice, as far as the context and the limit go. Send max_completion_tokens to reserve fewer."
    )
    known = throttled(Refusal(BOTH[0], "tpm", 300, 1004, 12.0), replace(ABSENT, reserved=979))
    assert "absent, so 979 tokens are reserved for the answer: the tier's default of 1024 for each" in known.message


@pytest.mark.parametrize(("limit", "wish"), [("tpm", SENT), ("rpm", ABSENT), ("concurrency", ABSENT), ("tpm", None)])
def test_others_are_not_told_of_it(limit: str, wish: Wish | None) -> None:
    error = throttled(Refusal(BOTH[0], limit, 3, 4, 12.0), wish)  # type: ignore[arg-type]
    assert "max_" not in error.message


def test_a_share_is_told_as_one() -> None:
    own, tenant = shares_of(BOTH, 3)
    assert (own.limits, tenant.limits) == (Limits(rpm=4, tpm=334), Limits(rpm=7, tpm=167))
    assert shares_of(BOTH, 1) == BOTH
    error = throttled(Refusal(tenant, "rpm", 7, 1, 5.0))
    assert "of this API key's tenant (1/3 of it, while the gateways cannot count together): limit 7" in error.message


@given(st.integers(1, 10**12), st.integers(1, 1000))
def test_shares_grant_the_limit_and_less_than_one_more_for_each(bound: int, gateways: int) -> None:
    (share,) = shares_of(scopes_of(Grant("k", limits=Limits(tpm=bound))), gateways)
    assert share.limits.tpm is not None
    assert share.limits.tpm >= 1
    assert bound <= share.limits.tpm * gateways < bound + gateways
