"""Why a call goes to its model, as labelled lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from console import figures
from console.text import pad
from control_plane.contracts.model_choice import ModelChoice, Score

Line = tuple[str, str]

_SCORE: Final = re.compile(r": score [0-9.]+ (?:>=|<) [^;]*")
"""What a reason says of a score, which is told part by part below it."""


def choice_lines(choice: ModelChoice) -> Iterator[Line]:
    """The reason; then each part of a score, where one was needed."""
    if choice.reason:
        yield "why", choice.reason if choice.score is None else _SCORE.sub("", choice.reason)
    if choice.instead_of:
        yield "instead of", choice.instead_of
    if choice.score is not None:
        yield "score", f"{choice.score.total:.2f}, large from {choice.threshold:g} on"
        yield from (("", line) for line in score_lines(choice.score))


def score_lines(score: Score) -> Iterator[str]:
    """``reasoning   0.50 × 0.5 = 0.25   1 word``, a line for each part."""
    for part in score.parts:
        counted = f"{part.value:.2f} × {part.weight:<4g}= {part.value * part.weight:.2f}"
        yield f"{pad(part.name, 10)} {counted}   {part.found or figures.NONE}"
