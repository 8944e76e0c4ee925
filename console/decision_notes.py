"""A router's decision in words: why there, and why not somewhere else, a line each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from console import figures
from control_plane.contracts.decision import CandidateView, DecisionView, RejectedView

_SAME: Final = 1e-9
_MOST_CAUSES: Final = 2


def rule_words(decision: DecisionView) -> str:
    """How it was chosen: profile, scorers with their weights, picker."""
    weights = ", ".join(f"{name} × {weight:g}" for name, weight in sorted(decision.by.weights.items(), key=_heaviest))
    temperature = f" at temperature {decision.by.temperature:g}" if decision.by.temperature else ""
    return f"{decision.profile}: {weights}; picker {decision.by.picker}{temperature}"


def _heaviest(entry: tuple[str, float]) -> tuple[float, str]:
    return -entry[1], entry[0]


def waited_words(decision: DecisionView) -> str:
    """What was before it in this attempt; empty where it came at once. One that found nobody may wait ever since."""
    if decision.looks < 2 and decision.chosen:
        return ""
    waited, times = figures.seconds(decision.waited_s), _times(decision.looks)
    return f"{waited} in the queue, looked {times}" if decision.chosen else f"looked {times}, last after {waited}"


def why(decision: DecisionView) -> str:
    """Why it went where it went, or nowhere."""
    picked = decision.picked
    if picked is None:
        count = sum(decision.rejected_by.values())
        if not count:
            return "there was no worker of this model"
        parts = ", ".join(f"{number} {_reason(name)}" for name, number in decision.rejected_by.items())
        return f"no worker could take it: {parts}"
    count = len(decision.candidates) + decision.more_candidates
    if count == 1:
        return "the only one that could take it"
    if decision.by.picker == "round_robin":
        return f"its turn among {count}"
    if decision.by.picker == "softmax":
        return f"drawn among {count}, with a chance of {figures.percent(picked.chance)}: total {picked.total:.3f}"
    others = [each for each in decision.candidates if each is not picked]
    next_best = max(others, key=lambda each: each.total, default=None)
    if next_best is None:
        return f"best of {count}: total {picked.total:.3f}"
    if next_best.total >= picked.total - _SAME:
        ties = sum(each.total >= picked.total - _SAME for each in others)
        return f"drawn among {ties + 1} that were as good: total {picked.total:.3f}"
    return f"best of {count}: total {picked.total:.3f}, then {next_best.worker_id} with {next_best.total:.3f}"


def why_rejected(rejected: RejectedView) -> str:
    return f"{_reason(rejected.reason)}: {rejected.words}" if rejected.words else _reason(rejected.reason)


def why_not(decision: DecisionView, candidate: CandidateView) -> str:
    """Why not this one, which could have been picked. Empty for the one that was."""
    picked = decision.picked
    if picked is None or candidate is picked:
        return ""
    if decision.by.picker == "round_robin":
        return "it was not its turn"
    missing = picked.total - candidate.total
    drawn = f"drawn against its chance of {figures.percent(candidate.chance)}; " if candidate.chance else ""
    if abs(missing) <= _SAME:
        return drawn + "as good: equals are drawn"
    compared = f"total {candidate.total:.3f} against {picked.total:.3f}"
    if missing < 0:
        return drawn + compared
    return f"{drawn}{compared}: {_causes(decision, candidate, picked)}"


def _causes(decision: DecisionView, candidate: CandidateView, picked: CandidateView) -> str:
    lost = [
        (weight * (theirs - own), name, own, theirs)
        for name, weight, own, theirs in zip(
            decision.scorers, decision.weights, candidate.scores, picked.scores, strict=True
        )
    ]
    worse = sorted((entry for entry in lost if entry[0] > _SAME), reverse=True)[:_MOST_CAUSES]
    words = [_cause(name, own, theirs, candidate, picked) for _, name, own, theirs in worse]
    better = [name for difference, name, _, _ in lost if difference < -_SAME]
    return " and ".join(words) + (f", though better in {' and '.join(better)}" if better else "")


def _cause(name: str, own: float, theirs: float, candidate: CandidateView, picked: CandidateView) -> str:
    if candidate.stale and not picked.stale and name in _OF_SAMPLES:
        return f"its last sample is too old to trust ({name} {own:.3f} against {theirs:.3f})"
    told = _CAUSES[name](candidate.inputs, picked.inputs) if name in _CAUSES else ""
    return told or f"{name} {own:.3f} against {theirs:.3f}"


Inputs = Mapping[str, float]


def _in_flight(own: Inputs, theirs: Inputs) -> str:
    for name, words in (("tokens", "more tokens in flight"), ("others", "more requests of others there")):
        if own.get(name, 0.0) > theirs.get(name, 0.0):
            return f"{words}, {own[name]:,.0f} against {theirs.get(name, 0.0):,.0f}"
    return ""


def _queue(own: Inputs, theirs: Inputs) -> str:
    if own.get("waiting", 0.0) <= theirs.get("waiting", 0.0):
        return ""
    return f"more waiting in its engine, {own['waiting']:.0f} against {theirs.get('waiting', 0.0):.0f}"


def _kv(own: Inputs, theirs: Inputs) -> str:
    if own.get("kv_usage", 0.0) <= theirs.get("kv_usage", 0.0):
        return ""
    return f"its KV cache is fuller, {figures.percent(own['kv_usage'])} against {figures.percent(theirs['kv_usage'])}"


_OF_SAMPLES: Final = frozenset({"inflight_tokens", "queue_depth", "kv_headroom"})
_CAUSES: Final[Mapping[str, Callable[[Inputs, Inputs], str]]] = {
    "inflight_tokens": _in_flight,
    "queue_depth": _queue,
    "kv_headroom": _kv,
}


def _reason(name: str) -> str:
    return name.replace("_", " ")


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times")
