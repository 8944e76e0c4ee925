"""What traffic to make, and the calls it consists of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from console.load.prompts import shared_prefixes, words
from console.load.shape import Length, arrivals

_SIXTY_FOUR = Length(64, 64)


@dataclass(frozen=True, slots=True)
class Plan:
    """Open loop where ``rate`` is set, else closed with ``concurrency`` calls at a time.

    It ends after ``requests`` calls or ``duration_s`` seconds, whichever comes first (0: not by this).
    """

    model: str
    concurrency: int = 8
    rate: float = 0.0
    poisson: bool = True
    requests: int = 0
    duration_s: float = 30.0
    prompt: Length = _SIXTY_FOUR
    output: Length = _SIXTY_FOUR
    prefixes: int = 0
    prefix_tokens: int = 256
    stream: bool = True
    chat: bool = True
    cancel: float = 0.0
    keys: int = 1
    seed: int = 0
    temperature: float | None = None
    ignore_eos: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """One call. ``at_s`` is when it starts in an open loop; ``leave_after`` is after how many pieces of text the client
    leaves (a plain call is left after as many hundredths of a second); None stays to the end."""

    number: int
    at_s: float
    path: str
    body: dict[str, Any]
    key: int
    leave_after: int | None


def jobs(plan: Plan) -> Iterator[Job]:
    """The calls in order, the same for the same plan; without ``requests`` there is no end."""
    random = Random(f"{plan.seed}/calls")
    clock = arrivals(plan.rate, poisson=plan.poisson, random=Random(f"{plan.seed}/arrivals")) if plan.rate else None
    prefixes = shared_prefixes(plan.prefixes, plan.prefix_tokens, plan.seed)
    number = 0
    while not plan.requests or number < plan.requests:
        prompt = f"#{number} " + words(plan.prompt.draw(random), random)
        prefix = prefixes[random.randrange(len(prefixes))] if prefixes else ""
        tokens = plan.output.draw(random)
        leaves = plan.cancel > 0 and random.random() < plan.cancel
        yield Job(
            number=number,
            at_s=next(clock) if clock else 0.0,
            path="/chat/completions" if plan.chat else "/completions",
            body=_body(plan, prefix, prompt, tokens),
            key=number % plan.keys,
            leave_after=random.randint(1, max(1, tokens // 2)) if leaves else None,
        )
        number += 1


def _body(plan: Plan, prefix: str, prompt: str, tokens: int) -> dict[str, Any]:
    """Without a seed for the server: that takes another, slower way through vLLM's sampler than most calls do."""
    body: dict[str, Any] = {"model": plan.model, "max_tokens": tokens, "stream": plan.stream}
    if plan.stream:
        body["stream_options"] = {"include_usage": True}
    if plan.temperature is not None:
        body["temperature"] = plan.temperature
    if plan.ignore_eos:
        body["ignore_eos"] = True
    if not plan.chat:
        body["prompt"] = f"{prefix}\n{prompt}" if prefix else prompt
        return body
    messages = [{"role": "system", "content": prefix}] if prefix else []
    body["messages"] = [*messages, {"role": "user", "content": prompt}]
    return body
