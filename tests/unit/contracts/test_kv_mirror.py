"""What a watcher makes of a worker's KV frames."""

from __future__ import annotations

from control_plane.contracts.kv_events import KvBatch, KvEvent, KvFrame, KvSnapshot
from control_plane.contracts.kv_mirror import KvMirror
from control_plane.contracts.v1 import worker_pb2 as pb
from control_plane.contracts.wire.convert import from_wire, to_wire
from control_plane.contracts.wire.kv_events import kv_frame_from_wire, kv_frame_to_wire


def told(seq: int, *names: int) -> KvBatch:
    return KvBatch(seq, (KvEvent(stored=names),))


def test_a_new_mirror_asks_for_everything_and_then_for_what_is_next() -> None:
    mirror = KvMirror()
    assert mirror.ask() == (0, "")
    assert mirror.apply(KvFrame("i", KvSnapshot(4, (1, 2), more=True)))
    assert (mirror.hashes, mirror.seq) == (set(), 0)  # a part is no set yet
    assert mirror.apply(KvFrame("i", KvSnapshot(4, (3,)), (told(5, 9),)))
    assert (mirror.hashes, mirror.ask()) == ({1, 2, 3, 9}, (6, "i"))


def test_events_count_in_their_order() -> None:
    mirror = KvMirror()
    events = (KvEvent(stored=(1, 2)), KvEvent(removed=(1,)), KvEvent(cleared=True), KvEvent(stored=(1,)))
    assert mirror.apply(KvFrame("i", batches=(KvBatch(1, events),)))
    assert mirror.hashes == {1}


def test_a_gap_is_noticed_and_what_is_known_already_is_not() -> None:
    mirror = KvMirror()
    assert mirror.apply(KvFrame("i", batches=(told(1, 1), told(1, 1), told(2, 2))))
    assert not mirror.apply(KvFrame("i", batches=(told(5, 5), told(6, 6))))
    assert (mirror.hashes, mirror.seq, mirror.gaps, mirror.ask()) == ({1, 2}, 2, 2, (3, "i"))


def test_another_instance_begins_with_an_empty_cache() -> None:
    mirror = KvMirror()
    mirror.apply(KvFrame("i", batches=(told(1, 1),)))
    assert mirror.apply(KvFrame("j"))
    assert (mirror.hashes, mirror.ask()) == (set(), (0, "j"))
    assert mirror.apply(KvFrame("j", batches=(told(1, 7),)))
    assert mirror.hashes == {7}


def test_a_half_snapshot_is_forgotten_when_watching_anew() -> None:
    mirror = KvMirror()
    mirror.apply(KvFrame("i", KvSnapshot(4, (1, 2), more=True)))
    mirror.ask()
    mirror.apply(KvFrame("i", KvSnapshot(5, (3,))))
    assert mirror.hashes == {3}


def test_what_was_lost_adds_up_over_watches() -> None:
    mirror = KvMirror()
    for lost in (2, 2, 5):
        mirror.apply(KvFrame("i", KvSnapshot(9), lost=lost))
    mirror.ask()
    mirror.apply(KvFrame("i", KvSnapshot(9), lost=1))
    assert mirror.lost == 6


def test_without_events_nothing_is_known() -> None:
    mirror = KvMirror()
    mirror.apply(KvFrame("i", batches=(told(1, 1),)))
    assert mirror.apply(KvFrame("i", unavailable="they stopped"))
    assert (mirror.hashes, mirror.seq, mirror.unavailable) == (set(), 0, "they stopped")


def test_frames_by_hand_are_what_the_general_conversion_makes() -> None:
    full = KvFrame(
        "i",
        KvSnapshot(3, (0, (1 << 64) - 1), more=True),
        (KvBatch(4, (KvEvent(stored=(1 << 63,)), KvEvent(removed=(2, 3)), KvEvent(cleared=True))), KvBatch(5)),
        lost=7,
        unavailable="why",
    )
    for frame in (full, KvFrame(), KvFrame("i", KvSnapshot())):
        wire = kv_frame_to_wire(frame)
        assert wire == to_wire(frame, pb.KvFrame)
        assert kv_frame_from_wire(wire) == from_wire(wire, KvFrame) == frame
