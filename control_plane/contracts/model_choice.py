"""Which model a call goes to: what a gateway asks a router, and what the router answers, with the reason.

A caller names a model, or a route of the policy that leads to one: see ``model_routes``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

OVERRIDE: Final = "x-inferdeck-model"
"""The header by which a caller decides itself: ``SMALL``, ``LARGE``, or a name. In answers, the model that answers."""

REASON_HEADER: Final = f"{OVERRIDE}-reason"
"""In answers, why it is not simply the one that was asked for."""

SMALL: Final = "small"
LARGE: Final = "large"


@dataclass(frozen=True, slots=True)
class PromptText:
    """``asked`` is what the caller wants now: its last message, or the prompt; empty where that came as token ids.
    ``characters`` counts all that was sent, instructions and earlier messages too."""

    asked: str
    characters: int


@dataclass(frozen=True, slots=True)
class ModelAsk:
    """``model`` and ``override`` as the caller wrote them. ``session`` means something to the gateway only: calls with
    the same one take the same side of a split; empty: each call by itself. ``max_tokens`` is what was asked for.
    ``prompt`` is called where a score is needed. ``in_full``: the words that were found are told, too, which are
    otherwise only counted, since they are the caller's."""

    model: str
    prompt: Callable[[], PromptText]
    override: str = ""
    session: str = ""
    max_tokens: int | None = None
    in_full: bool = False


@dataclass(frozen=True, slots=True)
class ScorePart:
    """One part of a score: ``value`` 0 to 1, and in ``found`` what it was made of."""

    name: str
    value: float
    weight: float
    found: str = ""


@dataclass(frozen=True, slots=True)
class Score:
    """How hard a request is taken to be, 0 to 1: see ``complexity_rule``."""

    total: float
    parts: tuple[ScorePart, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """``model`` is the one that answers. ``reason`` says in ASCII why it is not simply the one that was ``asked`` for;
    empty where it is. ``score`` is there where one decided; ``threshold`` is what it was held against.
    ``instead_of``: the model that would have answered, had its pool had a healthy worker. ``names`` are those of the
    policy on the way to the model, the first one first."""

    asked: str
    model: str
    reason: str = ""
    instead_of: str = ""
    threshold: float = 0.0
    score: Score | None = None
    names: tuple[str, ...] = ()
