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
    requests: tuple[int, int, float] | None = None
    tokens: tuple[int, int, float] | None = None
    for scope, standing in zip(scopes, standings, strict=True):
        rpm, tpm = scope.limits.rpm, scope.limits.tpm
        if rpm is not None:
            left = rpm - standing.requests
            if requests is None or left < requests[1]:
                requests = (rpm, left, standing.reset_s if standing.requests else 0.0)
        if tpm is not None:
            left = tpm - standing.tokens
            if tokens is None or left < tokens[1]:
                tokens = (tpm, left, standing.reset_s if standing.tokens else 0.0)
    lines = ""
    if requests is not None:
        limit, left, reset_s = requests
        lines = (
            f"x-ratelimit-limit-requests: {limit}\r\nx-ratelimit-remaining-requests: {max(0, left)}\r\n"
            f"x-ratelimit-reset-requests: {duration(reset_s)}\r\n"
        )
    if tokens is not None:
        limit, left, reset_s = tokens
        lines += (
            f"x-ratelimit-limit-tokens: {limit}\r\nx-ratelimit-remaining-tokens: {max(0, left)}\r\n"
            f"x-ratelimit-reset-tokens: {duration(reset_s)}\r\n"
        )
    return lines.encode()


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
