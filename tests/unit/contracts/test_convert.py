"""Every contract dataclass agrees with its message, field by field, and survives the trip."""

from __future__ import annotations

import dataclasses

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from control_plane.contracts import fleet, step, timeline, worker
from control_plane.contracts.decision import DecisionView
from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.v1 import decision_pb2, operator_pb2, worker_pb2
from control_plane.contracts.wire.convert import from_wire, to_wire
from control_plane.contracts.wire.frames import frame_to_wire
from control_plane.contracts.wire.packed import unpacked
from control_plane.contracts.worker import (
    CallError,
    Delta,
    Done,
    Finish,
    FinishReason,
    Generate,
    Sampling,
    Stages,
    TokenLogprob,
)
from tests.frames import deltas_from_wire

PAIRS: list[tuple[type, type[Message]]] = [
    (cls, message)
    for module, messages in (
        (worker, worker_pb2),
        (step, worker_pb2),
        (fleet, operator_pb2),
        (timeline, operator_pb2),
    )
    for name, cls in vars(module).items()
    if dataclasses.is_dataclass(cls) and isinstance(cls, type) and cls.__module__ == module.__name__
    if (message := getattr(messages, name, None)) is not None
]


@pytest.mark.parametrize(("cls", "message"), PAIRS, ids=[cls.__name__ for cls, _ in PAIRS])
def test_names_agree_on_both_sides(cls: type, message: type[Message]) -> None:
    assert {field.name for field in dataclasses.fields(cls)} == {field.name for field in message.DESCRIPTOR.fields}


def test_every_contract_dataclass_has_a_message() -> None:
    assert len(PAIRS) > 30


def test_a_field_on_one_side_only_is_refused() -> None:
    @dataclasses.dataclass
    class AbortCall:
        call: int
        other: int

    with pytest.raises(TypeError, match="other"):
        to_wire(AbortCall(1, 2), worker_pb2.AbortCall)


def test_a_message_without_a_part_that_has_to_be_is_told() -> None:
    with pytest.raises(ValueError, match="DecisionView without by"):
        from_wire(decision_pb2.DecisionView(request_id="req-1"), DecisionView)
    with pytest.raises(InvalidRequest, match="these bytes are no DecisionView of this version"):
        unpacked(b"", DecisionView)


def test_unset_and_zero_are_different() -> None:
    greedy = Sampling(max_tokens=1, temperature=0.0, seed=0, logprobs=0)
    again = from_wire(to_wire(greedy, worker_pb2.Sampling), Sampling)
    assert (again.temperature, again.seed, again.logprobs, again.top_p) == (0.0, 0, 0, None)


samplings = st.builds(
    Sampling,
    max_tokens=st.integers(1, 2**31),
    n=st.integers(1, 8),
    temperature=st.none() | st.floats(0, 2),
    stop=st.lists(st.text(min_size=1), max_size=4).map(tuple),
    stop_token_ids=st.lists(st.integers(0, 2**32 - 1)).map(tuple),
    seed=st.none() | st.integers(-(2**63), 2**63 - 1),
    logit_bias=st.dictionaries(st.integers(0, 2**32 - 1), st.floats(-100, 100)),
    json_schema=st.none() | st.text(),
)


@given(samplings, st.lists(st.integers(0, 2**32 - 1)), st.integers(-(2**31), 2**31 - 1), st.booleans())
def test_a_call_survives_the_trip(sampling: Sampling, ids: list[int], priority: int, stream: bool) -> None:
    call = Generate(7, "req-1", tuple(ids), sampling, priority, "salt", stream, 1.5)
    wire = worker_pb2.Generate.FromString(to_wire(call, worker_pb2.Generate).SerializeToString())
    assert from_wire(wire, Generate) == call


logprobs = st.builds(
    TokenLogprob,
    token_id=st.integers(0, 2**32 - 1),
    token=st.binary(max_size=8),
    logprob=st.floats(max_value=0, allow_nan=False),
    rank=st.integers(0, 100),
)
_uint32 = st.integers(0, 2**32 - 1)
_seconds = st.floats(allow_nan=False)
finishes = st.builds(
    Finish,
    reason=st.sampled_from(FinishReason),
    output_tokens=_uint32,
    stop_text=st.text(),
    stop_token_id=st.none() | _uint32,
)
dones = st.builds(
    Done,
    prompt_tokens=_uint32,
    cached_tokens=_uint32,
    output_tokens=_uint32,
    stages=st.builds(Stages, _seconds, _seconds, _seconds, _seconds, _uint32),
)
deltas = st.builds(
    Delta,
    call=st.integers(0, 2**64 - 1),
    token_ids=st.lists(st.integers(0, 2**32 - 1)).map(tuple),
    text=st.text(),
    choice=st.integers(0, 8),
    logprobs=st.lists(logprobs, max_size=2).map(tuple),
    finish=st.none() | finishes,
    done=st.none() | dones,
    error=st.none() | st.just(CallError("engine_dead", "gone", "")),
)


@given(st.lists(deltas, max_size=5))
def test_a_frame_survives_the_trip(step: list[Delta]) -> None:
    wire = worker_pb2.WorkerFrame.FromString(frame_to_wire(3, 2.5, step).SerializeToString())
    assert (wire.seq, wire.sent_unix) == (3, 2.5)
    assert _by_call(deltas_from_wire(wire)) == _by_call(step)


@given(st.lists(st.builds(Delta, call=st.integers(1, 4), token_ids=st.just((7,)), text=st.text()), min_size=1))
def test_plain_tokens_travel_in_columns(step: list[Delta]) -> None:
    wire = worker_pb2.WorkerFrame.FromString(frame_to_wire(1, 0.0, step).SerializeToString())
    assert not wire.deltas
    assert deltas_from_wire(wire) == step


def test_a_token_never_overtakes_what_its_call_said_before() -> None:
    step = [Delta(1, (7, 8), "two"), Delta(2, (5,), "b"), Delta(1, (9,), "c"), Delta(2, (6,), "d")]
    wire = frame_to_wire(1, 0.0, step)
    assert list(wire.token_calls) == [2, 2]
    assert _by_call(deltas_from_wire(wire)) == _by_call(step)


def _by_call(deltas: list[Delta]) -> dict[int, list[Delta]]:
    calls: dict[int, list[Delta]] = {}
    for delta in deltas:
        calls.setdefault(delta.call, []).append(delta)
    return calls


def test_a_snapshot_survives_the_trip() -> None:
    view = fleet.WorkerView(
        id="w1",
        pool="p",
        phase=fleet.WorkerPhase.READY,
        info=worker.WorkerInfo("w1", "i1", 42, model=worker.ModelInfo("m", max_context=2048)),
        load=worker.Load("i1", 1.0, worker.WorkerState.READY, running=3),
        latency=fleet.Latency(60.0, 4, 0.1, 0.2),
    )
    request = fleet.RequestView("r1", "g1", "m", fleet.RequestPhase.DECODING, stages=(fleet.Stage("queue", 0.0, 0.5),))
    gateway = fleet.GatewayView("g1", 7, "http://127.0.0.1:1", True, responses={200: 4, 429: 1})
    snapshot = fleet.Snapshot(3, 2.0, "cp", "0.1", (), (view,), (gateway,), (request,))
    wire = operator_pb2.Snapshot.FromString(to_wire(snapshot, operator_pb2.Snapshot).SerializeToString())
    assert from_wire(wire, fleet.Snapshot) == snapshot
