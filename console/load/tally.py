"""Results as they come in: every measurement is kept, so the quantiles are exact."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from console.completion import Answer

RECENT = 2000


@dataclass(slots=True)
class Series:
    """Durations in seconds, in the order in which they ended."""

    values: array[float] = field(default_factory=lambda: array("d"))

    def __len__(self) -> int:
        return len(self.values)

    def quantiles(self, *fractions: float, last: int = 0) -> list[float | None]:
        """Nearest-rank quantiles of all values, or of the ``last`` so many; None where there are none."""
        return quantiles(self.values[-last:] if last else self.values, *fractions)

    @property
    def mean(self) -> float | None:
        return math.fsum(self.values) / len(self.values) if self.values else None


def quantiles(values: Sequence[float], *fractions: float) -> list[float | None]:
    ordered = sorted(values)
    if not ordered:
        return [None] * len(fractions)
    return [ordered[max(0, math.ceil(fraction * len(ordered)) - 1)] for fraction in fractions]


@dataclass(slots=True)
class KeyTally:
    ok: int = 0
    failed: int = 0
    cancelled: int = 0
    output_tokens: int = 0


@dataclass(slots=True)
class Tally:
    """Everything one run measured. ``late`` is how much later than planned the generator itself started a call."""

    started: int = 0
    running: int = 0
    ok: int = 0
    cancelled: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    finish_reasons: Counter[str] = field(default_factory=Counter)
    ttft: Series = field(default_factory=Series)
    itl: Series = field(default_factory=Series)
    tpot: Series = field(default_factory=Series)
    e2e: Series = field(default_factory=Series)
    late: Series = field(default_factory=Series)
    chunks: int = 0
    output_tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    keys: dict[int, KeyTally] = field(default_factory=dict)

    @property
    def ended(self) -> int:
        return self.ok + self.cancelled + self.failed

    @property
    def failed(self) -> int:
        return self.errors.total()

    def unreachable(self, key: int, message: str) -> None:
        self._failed(key, "unreachable", message)

    def add(self, answer: Answer, *, key: int, stream: bool, left: bool) -> None:
        """One call that ended. ``left``: this client closed it on purpose, which is not a failure."""
        mine = self.keys.setdefault(key, KeyTally())
        self.output_tokens += answer.output_tokens
        mine.output_tokens += answer.output_tokens
        if stream and answer.token_times:
            assert answer.ttft_s is not None
            self.ttft.values.append(answer.ttft_s)
        if left:
            self.cancelled += 1
            mine.cancelled += 1
            return
        if not answer.ok:
            code = answer.error_code or "incomplete"
            named = f"{answer.status} {code}" if answer.status else code
            self._failed(key, named, answer.error_message)
            return
        self.ok += 1
        mine.ok += 1
        self.finish_reasons[answer.finish_reason or "none"] += 1
        self.prompt_tokens += answer.prompt_tokens or 0
        self.cached_tokens += answer.cached_tokens or 0
        self.e2e.values.append(answer.ended - answer.started)
        times = answer.token_times
        if stream and len(times) > 1:
            self.tpot.values.append((times[-1] - times[0]) / (len(times) - 1))

    def _failed(self, key: int, code: str, message: str) -> None:
        self.errors[code] += 1
        self.examples.setdefault(code, message)
        self.keys.setdefault(key, KeyTally()).failed += 1
