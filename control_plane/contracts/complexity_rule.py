"""How hard a request is taken to be, as a rule that is data: its parts, what each counts, and the words that count.

The score is the sum of each part, 0 to 1, times its weight, and at most 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

PARTS: Final = ("length", "code", "questions", "reasoning", "output")
"""In the order in which they are told."""

DEFAULT_WEIGHTS: Final[Mapping[str, float]] = MappingProxyType(
    {"length": 0.5, "code": 0.4, "questions": 0.3, "reasoning": 0.5, "output": 0.2}
)

DEFAULT_WORDS: Final = (
    "algorithm",
    "analyse",
    "analyze",
    "architecture",
    "compare",
    "critique",
    "debug",
    "derive",
    "design",
    "diagnose",
    "evaluate",
    "hypothesis",
    "implement",
    "induction",
    "justify",
    "optimise",
    "optimize",
    "plan",
    "proof",
    "prove",
    "reason",
    "refactor",
    "root cause",
    "step by step",
    "strategy",
    "theorem",
    "trade offs",
    "tradeoffs",
)


@dataclass(frozen=True, slots=True)
class ComplexityRule:
    """``weights``: of each of ``PARTS``. ``long_prompt`` are the characters at which the length counts in full,
    ``long_output`` the asked tokens at which the output does. ``words`` speak for reasoning: words, or several words
    with spaces between them; small and large letters are the same."""

    weights: Mapping[str, float] = field(default_factory=lambda: DEFAULT_WEIGHTS)
    long_prompt: int = 8_000
    long_output: int = 1_024
    words: tuple[str, ...] = DEFAULT_WORDS
