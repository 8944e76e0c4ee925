"""Steps as bytes between the engine core and its worker."""

from __future__ import annotations

import pytest

pytest.importorskip("msgspec")

from control_plane.contracts.step import (
    BlockSnapshot,
    BlockTable,
    EngineStep,
    SharedBlock,
    StepFinished,
    StepKind,
    StepRow,
    StepWaiting,
)
from workers.engine.step_payload import (
    LAST_PREFILL,
    StepDecoder,
    Waiting,
    decode,
    decode_snapshot,
    encode_snapshot,
    encode_step,
)


def encoded(step: int, waiting: list[Waiting] | None) -> bytes:
    return encode_step(
        step=step,
        started_unix=1.5,
        schedule_s=0.1,
        execute_s=0.2,
        tokens=12,
        rows=[("a#1", LAST_PREFILL, 12, 32, 44, 0, 32, -5, True, False, [3, 4], 2)],
        waiting=waiting,
        waiting_total=1,
        preempted=["b"],
        finished=[("c", "abort", 9, 4)],
        total_blocks=10,
        used_blocks=6,
        cached_free_blocks=3,
        dropped=2,
    )


def test_a_step_comes_out_as_it_went_in() -> None:
    assert StepDecoder().step(decode(encoded(7, [("w", 50, 1, True)]))) == EngineStep(
        step=7,
        started_unix=1.5,
        schedule_s=0.1,
        execute_s=0.2,
        tokens=12,
        rows=(
            StepRow(
                "a#1",
                StepKind.LAST_PREFILL,
                tokens=12,
                computed=32,
                prompt_tokens=44,
                output_tokens=0,
                cached_tokens=32,
                priority=-5,
                joined=True,
                resumed=False,
                new_blocks=(3, 4),
                blocks=2,
            ),
        ),
        waiting=(StepWaiting("w", 50, 1, True),),
        waiting_total=1,
        preempted=("b",),
        finished=(StepFinished("c", "abort", 9, 4),),
        total_blocks=10,
        used_blocks=6,
        cached_free_blocks=3,
        free_blocks=1,
        dropped=2,
        batch=1,
    )


def test_a_queue_that_did_not_change_is_told_once() -> None:
    decoder = StepDecoder()
    first = decoder.step(decode(encoded(1, [("w", 50, 1, False)])))
    assert decoder.step(decode(encoded(2, None))).waiting == first.waiting
    assert decoder.step(decode(encoded(3, []))).waiting == ()
    assert decoder.step(decode(encoded(4, None))).waiting == ()


def test_a_snapshot_comes_out_as_it_went_in() -> None:
    data = encode_snapshot((9, 2.5, 32, 10, 4, 2), [("a", [1, 2], 50), ("b", [1, 3], 40)], [(1, 2)], [8, 7], [])
    assert decode_snapshot(data) == BlockSnapshot(
        step=9,
        taken_unix=2.5,
        block_size=32,
        total_blocks=10,
        used_blocks=4,
        cached_free_blocks=2,
        free_blocks=4,
        tables=(BlockTable("a", (1, 2), 50), BlockTable("b", (1, 3), 40)),
        shared=(SharedBlock(1, 2),),
        cached_free=(8, 7),
    )
