"""Limits as callers read them: headers in OpenAI's format, and the words of a refusal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from control_plane.contracts.errors import Throttled, TokensThrottled
from control_plane.gateway.limits.scope import Scope
from control_plane.gateway.limits.spending import Wish
from control_plane.gateway.limits.verdict import Refusal, Standing

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
                requests = (rpm, left, standing.requests_reset_s)
        if tpm is not None:
            left = tpm - standing.tokens
            if tokens is None or left < tokens[1]:
                tokens = (tpm, left, standing.tokens_reset_s)
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


def throttled(refusal: Refusal, wish: Wish | None = None) -> Throttled:
    """The 429: which limit of whom, what it is, what is used, what was asked, and when to try again or what to ask for
    instead."""
    whose = "this API key" if refusal.scope.kind == "key" else "this API key's tenant"
    if refusal.scope.gateways > 1:
        whose += f" (1/{refusal.scope.gateways} of it, while the gateways cannot count together)"
    facts = f"limit {refusal.bound}, used {refusal.used}, asked {refusal.asked}"
    never = refusal.wait_s is None
    if refusal.wait_s is None:
        way_out = "It can never fit into this limit."
    elif refusal.limit == "concurrency":
        way_out = "Try again when one of them has ended."
    else:
        way_out = f"Try again in {duration(refusal.wait_s)}."
    if refusal.limit == "tpm" and wish is not None:
        way_out += _ask_for_fewer(wish, never=never)
    error = TokensThrottled if refusal.limit == "tpm" else Throttled
    what = "Request too large" if never else "Rate limit reached"
    return error(
        f"{what}: {_NAMES[refusal.limit]} of {whose}: {facts}. {way_out}",
        retry_after_s=refusal.wait_s,
        retry=False if never else None,
    )


def _ask_for_fewer(wish: Wish, *, never: bool) -> str:
    if wish.default is not None:
        # Where it can never fit, the default was cut to the limit already: it is the prompt that is too long.
        if never:
            return " Shorten the prompt, or lower n."
        many = "tokens are" if wish.reserved is None else f"{wish.reserved} tokens are"
        return (
            f" {wish.name} is absent, so {many} reserved for the answer: the tier's default of {wish.default} for each "
            f"choice, as far as the context and the limit go. Send {wish.name} to reserve fewer."
        )
    return f" Shorten the prompt, or lower {wish.name} or n." if never else ""
