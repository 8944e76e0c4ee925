"""Snapshots as changes: what is put together again equals what was taken apart."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.record.changes import changed, changes
from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.fleet import Event, RequestPhase, RequestView, Snapshot
from control_plane.contracts.wire.packed import packed
from tests.snapshots.memory import NOW, request, snapshot

views = st.builds(
    RequestView,
    id=st.sampled_from(["a", "b", "c", "d"]),
    gateway_id=st.just("g1"),
    model=st.just("m"),
    phase=st.sampled_from([RequestPhase.QUEUED, RequestPhase.DECODING, RequestPhase.FINISHED]),
    output_tokens=st.integers(0, 2),
    reason=st.sampled_from(["", "stop"]),
)
events = st.builds(
    Event,
    seq=st.integers(1, 4),
    at_unix=st.sampled_from([1.0, 2.0]),
    kind=st.just("scaled"),
    subject=st.just("pool/p"),
    message=st.text(max_size=3),
)
snapshots = st.builds(
    Snapshot,
    revision=st.integers(1, 9),
    taken_unix=st.floats(1, 2),
    control_plane_id=st.just("cp"),
    version=st.just("1"),
    requests=st.lists(views, max_size=5).map(tuple),
    events=st.lists(events, max_size=5).map(tuple),
)


@settings(max_examples=60, deadline=None)
@given(snapshots, snapshots)
def test_any_snapshot_follows_from_any_other(old: Snapshot, new: Snapshot) -> None:
    assert changed(old, 7.0, changes(old, 7.0, new)) == new


def test_requests_that_have_ended_are_written_once() -> None:
    ended = tuple(request(f"req-{n}", phase=RequestPhase.FINISHED, duration_s=float(n)) for n in range(500))
    old = snapshot(requests=ended)
    news = (*ended[1:], request("req-new"))
    new = snapshot(NOW + 0.5, requests=news)
    payload = changes(old, 7.0, new)
    assert changed(old, 7.0, payload) == new
    assert len(payload) < len(packed(new)) / 20


def test_changes_of_another_snapshot_are_refused() -> None:
    old = snapshot()
    payload = changes(old, 7.0, replace(old, revision=2))
    with pytest.raises(InvalidRequest, match="cannot be read"):
        changed(old, 8.0, payload)
    with pytest.raises(InvalidRequest, match="does not have"):
        changed(replace(old, requests=()), 7.0, payload)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=50))
def test_bytes_that_are_no_changes_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidRequest):
        changed(Snapshot(1, 1.0, "cp", "1"), 7.0, data)
