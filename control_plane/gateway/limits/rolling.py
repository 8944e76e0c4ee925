"""``rolling.lua`` as Python sees it: the steps that it is asked for, and its answers."""

from __future__ import annotations

import importlib.resources
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from control_plane.gateway.limits.scope import Scope
from control_plane.gateway.limits.verdict import BUSY_S, Refusal, Standing

SCRIPT: Final = importlib.resources.files(__package__).joinpath("rolling.lua").read_text()

GIVE_BACK: Final = -1

_PREFIX: Final = "inferdeck:limits:"
_GATEWAYS: Final = f"{_PREFIX}gateways"
_SETS: Final = ("requests", "spent", "amounts", "runs")
_FACTS: Final = 8


@dataclass(frozen=True, slots=True)
class Reply:
    """``refusal`` None: it is done."""

    standings: tuple[Standing, ...]
    refusal: Refusal | None = None


Then = Callable[[Reply | None], None]


@dataclass(frozen=True, slots=True)
class Step:
    """``op`` is a word of the script: enter, reserve, settle, lower, renew, look, present or leave; of the last two
    ``call`` is a gateway's name. ``reserved`` is what the call has reserved, ``began_mono`` when (or when it entered),
    ``asked_mono`` when this step was asked for: of a settling, when the call ended."""

    op: str
    call: str
    scopes: tuple[Scope, ...] = ()
    tokens: int = 0
    most: int = 0
    reserved: int = 0
    began_mono: float = 0.0
    asked_mono: float = 0.0
    then: Then | None = None


def arguments(step: Step, now_mono: float, *, window_s: float, lease_s: float, server_us: int = 0) -> list[Any]:
    """How many keys, the keys, and what else the script takes. ``server_us`` is its clock in tests; 0: the server's."""
    keys: list[Any] = []
    limits: list[Any] = []
    for scope in step.scopes:
        # The part in braces decides the slot: a key and its tenant are asked together.
        name = f"{_PREFIX}{{{quote(scope.tenant, safe='')}}}:{quote(scope.name, safe=':')}"
        keys += (f"{name}:{each}" for each in _SETS)
        bounds = (scope.limits.rpm, scope.limits.tpm, scope.limits.concurrency)
        limits += (-1 if bound is None else bound for bound in bounds)
    if not step.scopes:
        keys.append(_GATEWAYS)
    times = (now_mono - step.began_mono, now_mono - step.asked_mono, window_s, lease_s)
    micros = (max(0, round(seconds * 1e6)) for seconds in times)
    return [len(keys), *keys, step.op, step.call, step.tokens, step.most, step.reserved, *micros, server_us, *limits]


def reply_of(step: Step, answer: Sequence[int]) -> Reply:
    """Raises TypeError or ValueError for what the script does not say."""
    done, *facts = map(int, answer)
    standings, refusals = [], []
    for index, scope in enumerate(step.scopes):
        requests, tokens, running, reset_requests, reset_tokens, for_requests, for_tokens, busy = facts[
            index * _FACTS : (index + 1) * _FACTS
        ]
        standings.append(Standing(requests, tokens, reset_requests / 1e6, reset_tokens / 1e6))
        if done:
            continue
        if for_requests:
            refusals.append(Refusal(scope, "rpm", requests, 1, for_requests / 1e6 if for_requests > 0 else None))
        if for_tokens:
            refusals.append(Refusal(scope, "tpm", tokens, step.tokens, for_tokens / 1e6 if for_tokens > 0 else None))
        if busy:
            refusals.append(Refusal(scope, "concurrency", running, 1, BUSY_S if scope.limits.concurrency else None))
    return Reply(tuple(standings), max(refusals, key=lambda refusal: refusal.longest) if refusals else None)
