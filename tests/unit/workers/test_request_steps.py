"""A step narrowed to one request."""

from __future__ import annotations

from control_plane.contracts.step import EngineStep, StepFinished, StepKind, StepRow, StepWaiting
from workers.request_steps import concerning


def row(request_id: str, kind: StepKind = StepKind.DECODE, tokens: int = 1) -> StepRow:
    return StepRow(request_id, kind, tokens, 0, 1000)


STEP = EngineStep(
    7,
    0.0,
    tokens=704,
    rows=(
        row("b"),
        row("a#1"),
        row("c", StepKind.PREFILL, 200),
        row("a"),
        row("d", StepKind.LAST_PREFILL, 500),
        row("ab"),
    ),
    waiting=(StepWaiting("w", 9), StepWaiting("a#2", 9)),
    waiting_total=2,
    preempted=("e", "a#3"),
    finished=(StepFinished("b", "stop"), StepFinished("a", "length")),
)


def test_its_own_rows_and_the_largest_prefill_beside_them_are_kept() -> None:
    narrow = concerning(STEP, "a")
    assert narrow is not None
    assert [each.request_id for each in narrow.rows] == ["a#1", "a", "d"]
    assert (narrow.batch, narrow.tokens, narrow.waiting, narrow.waiting_total) == (6, 704, (), 2)
    assert narrow.preempted == ("a#3",)
    assert narrow.finished == (StepFinished("a", "length"),)


def test_a_prefill_of_its_own_is_not_beside_it() -> None:
    narrow = concerning(STEP, "d")
    assert narrow is not None
    assert [each.request_id for each in narrow.rows] == ["c", "d"]


def test_a_step_that_only_preempts_it_needs_no_rows() -> None:
    narrow = concerning(STEP, "e")
    assert narrow is not None
    assert (narrow.rows, narrow.preempted, narrow.batch) == ((), ("e",), 6)


def test_waiting_beside_a_step_is_not_in_it() -> None:
    assert concerning(STEP, "w") is None
    assert concerning(STEP, "x") is None


def test_a_step_that_was_narrowed_still_tells_its_batch() -> None:
    narrow = concerning(STEP, "a")
    assert narrow is not None
    assert concerning(narrow, "a") == narrow
