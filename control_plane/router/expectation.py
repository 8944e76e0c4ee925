"""How much a call will probably hold, learned from the ones that ended. Pure."""

from __future__ import annotations

from control_plane.router.scheduling.candidate import TYPICAL_TOKENS

FIRST_GUESS_OUTPUT = 128.0
_WEIGHT = 0.1


class Expectation:
    """Running means of one model's traffic: output tokens per choice, and tokens per call in all."""

    __slots__ = ("output", "whole")

    def __init__(self) -> None:
        self.output = FIRST_GUESS_OUTPUT
        self.whole = TYPICAL_TOKENS

    def of(self, prompt_tokens: int, max_tokens: int, choices: int) -> float:
        """Tokens that a call is expected to hold at its end: never more output than it may produce."""
        return prompt_tokens + choices * min(float(max_tokens), self.output)

    def learn(self, prompt_tokens: int, output_tokens: int, choices: int) -> None:
        self.output += _WEIGHT * (output_tokens / choices - self.output)
        self.whole += _WEIGHT * (prompt_tokens + output_tokens - self.whole)
