"""Decisions of a router, made up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from control_plane.contracts.decision import CandidateView, DecisionView, RejectedView
from control_plane.contracts.routing import BUILT_IN

AT = 1_700_000_000.0


def candidate(
    name: str, scores: tuple[float, ...] = (0.9, 1.0, 0.6), total: float = 0.85, **changes: Any
) -> CandidateView:
    inputs = {"requests": 2.0, "tokens": 310.0, "others": 0.0, "waiting": 0.0, "kv_usage": 0.4}
    view = CandidateView(name, f"{name}-i", scores, total, 0.0, 0.3, False, inputs)
    return replace(view, **changes)


def decision(number: int = 7, request_id: str = "req-1", **changes: Any) -> DecisionView:
    """To ``smollm2-1`` by the profile balanced; ``smollm2-2`` is busier, ``smollm2-3`` cordoned."""
    busier = {"requests": 5.0, "tokens": 812.0, "others": 0.0, "waiting": 3.0, "kv_usage": 0.61}
    view = DecisionView(
        number=number,
        router_id="g1",
        request_id=request_id,
        attempt=1,
        at_unix=AT,
        model="smollm2-135m",
        profile="balanced",
        by=BUILT_IN["balanced"],
        scorers=("inflight_tokens", "queue_depth", "kv_headroom"),
        candidates=(candidate("smollm2-1"), candidate("smollm2-2", (0.7, 0.25, 0.39), 0.51, inputs=busier)),
        rejected=(RejectedView("smollm2-3", "cordoned", "an operator keeps new requests away from it"),),
        rejected_by={"cordoned": 1},
        chosen="smollm2-1",
        prompt_tokens=388,
        expected_tokens=516.0,
    )
    return replace(view, **changes)


def waited(number: int = 6, request_id: str = "req-1", **changes: Any) -> DecisionView:
    """Nobody could take it."""
    rejected = (RejectedView("smollm2-1", "full", "it holds 32 sequences of this router, and batches 16"),)
    view = decision(
        number,
        request_id,
        candidates=(),
        scorers=(),
        chosen="",
        rejected=rejected,
        rejected_by={"full": 1},
        looks=3,
        waited_s=0.4,
    )
    return replace(view, **changes)


def moved(number: int = 9, request_id: str = "req-1", **changes: Any) -> DecisionView:
    """The second attempt: the first worker was lost after 12 tokens."""
    rejected = (
        RejectedView("smollm2-1", "tried", "it has lost or failed this very request before"),
        RejectedView("smollm2-3", "cordoned", "an operator keeps new requests away from it"),
    )
    view = decision(
        number,
        request_id,
        attempt=2,
        at_unix=AT + 2,
        candidates=(candidate("smollm2-2", (0.7, 0.25, 0.39), 0.51),),
        rejected=rejected,
        rejected_by={"tried": 1, "cordoned": 1},
        chosen="smollm2-2",
        continued_tokens=12,
    )
    return replace(view, **changes)
