"""Steps converted by hand say what the fields' names say."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.step import (
    BlockSnapshot,
    EngineStep,
    StepFinished,
    StepFrame,
    StepKind,
    StepRow,
    StepWaiting,
    TraceMode,
    TraceState,
)
from control_plane.contracts.v1 import worker_pb2 as pb
from control_plane.contracts.wire.convert import from_wire, to_wire
from control_plane.contracts.wire.packed import packed, unpacked
from control_plane.contracts.wire.steps import (
    KEPT,
    KEPT_ROWS,
    StepFrames,
    step_frame_from_wire,
    step_frame_to_wire,
    step_from_wire,
    step_to_wire,
)

_count = st.integers(0, 2**32 - 1)
_number = st.integers(0, 2**64 - 1)
_seconds = st.floats(allow_nan=False)
_priority = st.integers(-(2**31), 2**31 - 1)
_name = st.text(max_size=8)
_rows = st.builds(
    StepRow,
    _name,
    st.sampled_from(StepKind),
    _count,
    _count,
    _count,
    _count,
    _count,
    _priority,
    st.booleans(),
    st.booleans(),
    st.lists(_count, max_size=3).map(tuple),
    _count,
)
_waiting = st.builds(StepWaiting, _name, _count, _priority, st.booleans())
_finished = st.builds(StepFinished, _name, _name, _count, _count)
_steps = st.builds(
    EngineStep,
    _number,
    _seconds,
    _seconds,
    _seconds,
    _count,
    st.lists(_rows, max_size=3).map(tuple),
    st.lists(_waiting, max_size=3).map(tuple),
    _count,
    st.lists(_name, max_size=3).map(tuple),
    st.lists(_finished, max_size=3).map(tuple),
    _count,
    _count,
    _count,
    _count,
    _number,
    _count,
)

FULL = EngineStep(
    step=1,
    started_unix=2.5,
    schedule_s=0.1,
    execute_s=0.2,
    tokens=3,
    rows=(StepRow("a", StepKind.PREFILL, 4, 5, 6, 7, 8, -9, True, True, (10, 11), 12),),
    waiting=(StepWaiting("w", 13, -14, True),),
    waiting_total=15,
    preempted=("p",),
    finished=(StepFinished("f", "stop", 16, 17),),
    total_blocks=18,
    used_blocks=19,
    cached_free_blocks=20,
    free_blocks=21,
    dropped=22,
    batch=23,
)
"""Every field says something: one that is forgotten, or comes to be and is not converted, shows."""


@pytest.mark.parametrize(
    "value", [FULL, FULL.rows[0], FULL.waiting[0], FULL.finished[0]], ids=lambda it: type(it).__name__
)
def test_the_full_step_leaves_no_field_empty(value: object) -> None:
    assert dataclasses.is_dataclass(value)
    assert [field.name for field in dataclasses.fields(value) if not getattr(value, field.name)] == []


def test_every_field_is_converted_both_ways() -> None:
    assert step_to_wire(FULL) == to_wire(FULL, pb.EngineStep)
    assert step_from_wire(to_wire(FULL, pb.EngineStep)) == FULL


@given(_steps)
@settings(max_examples=50)
def test_a_step_is_converted_as_its_names_say(step: EngineStep) -> None:
    wire = step_to_wire(step)
    assert wire.SerializeToString(deterministic=True) == to_wire(step, pb.EngineStep).SerializeToString(
        deterministic=True
    )
    assert step_from_wire(pb.EngineStep.FromString(wire.SerializeToString())) == step


@pytest.mark.parametrize("base", [None, BlockSnapshot(3, 1.5, 16, 10, 4, 2, 4, cached_free=(1, 2))])
def test_a_frame_is_converted_as_its_names_say(base: BlockSnapshot | None) -> None:
    frame = StepFrame((FULL,), TraceState(TraceMode.SAMPLED, 4, "", 9, 2, 7), base)
    wire = step_frame_to_wire(frame)
    assert wire == to_wire(frame, pb.StepFrame) == StepFrames().to_wire(frame)
    assert step_frame_from_wire(wire) == from_wire(wire, StepFrame) == frame
    assert unpacked(packed(frame), StepFrame) == frame
    assert step_frame_from_wire(pb.StepFrame()) == StepFrame()


def test_a_kind_of_another_version_is_refused() -> None:
    wire = pb.StepFrame(steps=[pb.EngineStep(rows=[pb.StepRow.FromString(b"\x10\x63")])])
    with pytest.raises(ValueError, match="99"):
        step_frame_from_wire(wire)
    with pytest.raises(InvalidRequest, match="99"):
        unpacked(wire.SerializeToString(), StepFrame)


def test_what_is_kept_converted_is_bounded_by_steps_and_by_rows() -> None:
    frames = StepFrames()
    frames.to_wire(StepFrame(tuple(EngineStep(number, 0.0) for number in range(2 * KEPT))))
    assert len(frames._steps) == KEPT
    large = dataclasses.replace(FULL, rows=FULL.rows * (KEPT_ROWS // 4))
    frames.to_wire(StepFrame(tuple(dataclasses.replace(large, step=5000 + number) for number in range(9))))
    assert list(frames._steps) == [5005, 5006, 5007, 5008]
    frames.to_wire(StepFrame((dataclasses.replace(FULL, step=6000, rows=FULL.rows * (KEPT_ROWS + 1)),)))
    assert list(frames._steps) == [6000]
