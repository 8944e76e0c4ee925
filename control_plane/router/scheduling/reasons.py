"""Why an endpoint was left out, in words, with the numbers as they were then. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from control_plane.router.scheduling.candidate import Ask, Candidate


def reason_words(reason: str, ask: Ask, candidate: Candidate, now: float) -> str:
    """``reason`` is a filter's name; one that is not known here stands for itself."""
    words = _WORDS.get(reason)
    return words(ask, candidate, now) if words is not None else reason.replace("_", " ")


def _too_long(ask: Ask, candidate: Candidate, now: float) -> str:
    return f"{ask.max_total_tokens:,} tokens of prompt and output, and its context is {candidate.max_context:,}"


def _cooling_down(ask: Ask, candidate: Candidate, now: float) -> str:
    left = candidate.refusing_until - now
    if left == float("inf"):
        return "it failed lately, and one call is there on trial"
    return f"it has just failed or refused a call: left alone for another {max(0.0, left):.2f} s"


def _full(ask: Ask, candidate: Candidate, now: float) -> str:
    held = f"{candidate.sequences} sequences of this router"
    others = f" and {candidate.others} of others" if candidate.others and candidate.fresh(now) else ""
    return f"it holds {held}{others}, and batches {candidate.max_sequences}"


_WORDS: Final[Mapping[str, Callable[[Ask, Candidate, float], str]]] = {
    "not_ready": lambda ask, candidate, now: "it is not ready: still starting, asleep, or its heartbeats stopped",
    "too_long": _too_long,
    "tried": lambda ask, candidate, now: "it has lost or failed this very request before",
    "cordoned": lambda ask, candidate, now: "an operator keeps new requests away from it",
    "unreachable": lambda ask, candidate, now: "this router has no stream to it",
    "cooling_down": _cooling_down,
    "full": _full,
}
