"""Limits as callers read them: headers in OpenAI's format, and the words of a refusal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from control_plane.contracts.errors import Throttled, TokensThrottled
from control_plane.gateway.limits.scope import Scope
from control_plane.gateway.limits.verdict import Refusal, Standing

_NEVER_S = 60.0
_NAMES = {"rpm": "requests per minute", "tpm": "tokens per minute", "concurrency": "calls at one time"}


def limit_headers(scopes: Sequence[Scope], standings: Sequence[Standing]) -> bytes:
    """Header lines, each ended by CRLF: of requests and of tokens the scope that has the fewest left."""
    lines = b""
    fewest_requests = fewest_tokens = None
    for scope, standing in zip(scopes, standings, strict=True):
        rpm, tpm = scope.limits.rpm, scope.limits.tpm
        if rpm is not None and (fewest_requests is None or rpm - standing.requests < fewest_requests[1]):
            fewest_requests = (rpm, rpm - standing.requests, standing.reset_s if standing.requests else 0.0)
        if tpm is not None and (fewest_tokens is None or tpm - standing.tokens < fewest_tokens[1]):
            fewest_tokens = (tpm, tpm - standing.tokens, standing.reset_s if standing.tokens else 0.0)
    for name, fewest in ((b"requests", fewest_requests), (b"tokens", fewest_tokens)):
        if fewest is not None:
            limit, left, reset_s = fewest
            lines += b"x-ratelimit-limit-%b: %d\r\nx-ratelimit-remaining-%b: %d\r\nx-ratelimit-reset-%b: %b\r\n" % (
                name,
                limit,
                name,
                max(0, left),
                name,
                duration(reset_s).encode(),
            )
    return lines


def duration(seconds: float) -> str:
    """As Go writes it, which is how OpenAI does: ``12ms``, ``7.66s``, ``6m0s``; milliseconds are rounded up."""
    ms = math.ceil(seconds * 1000)
    if 0 < ms < 1000:
        return f"{ms}ms"
    minutes, ms = divmod(ms, 60_000)
    return (f"{minutes}m" if minutes else "") + f"{ms / 1000:.3f}".rstrip("0").rstrip(".") + "s"


def throttled(refusal: Refusal) -> Throttled:
    """The 429: which limit of whom, what it is, what is used, what was asked, and when to try again."""
    whose = "this API key" if refusal.scope.kind == "key" else "this API key's tenant"
    facts = f"limit {refusal.bound}, used {refusal.used}, asked {refusal.asked}"
    if refusal.wait_s is None:
        way_out = "This can never fit into the limit."
        if refusal.limit == "tpm":
            way_out += " Ask for fewer tokens: shorten the prompt, or lower max_tokens or n."
    elif refusal.limit == "concurrency":
        way_out = "Try again when one of them has ended."
    else:
        way_out = f"Try again in {duration(refusal.wait_s)}."
    error = TokensThrottled if refusal.limit == "tpm" else Throttled
    return error(
        f"Rate limit reached: {_NAMES[refusal.limit]} of {whose}: {facts}. {way_out}",
        retry_after_s=_NEVER_S if refusal.wait_s is None else refusal.wait_s,
        retry=False if refusal.wait_s is None else None,
    )
