from __future__ import annotations

from dataclasses import replace

from console.plain.resources import RESOURCES, data_of
from console.pressure import band_words, queue_words
from control_plane.contracts.fleet import Pool, Snapshot

POOL = Pool("p", "m", "vllm", 2, 2, 2, band="busy", saturation=0.834, queued={"paid": 2, "free": 1})


def test_band_and_queue_in_words() -> None:
    assert band_words(POOL) == "busy 83%"
    assert band_words(replace(POOL, saturation=0.896)) == "busy 89%", "it has not reached the band that begins at 90"
    assert band_words(replace(POOL, band="reject", saturation=0.9)) == "reject 90%"
    assert queue_words(POOL) == "3"
    assert queue_words(POOL, tiers=True) == "3 (free 1, paid 2)"


def test_what_is_not_known_is_not_shown_as_a_figure() -> None:
    pool = replace(POOL, band="", saturation=None, queued={})
    assert band_words(pool) == "–"
    assert queue_words(pool, tiers=True) == "0"
    assert data_of(pool)["saturation"] is None


def test_get_pools_has_both() -> None:
    snapshot = Snapshot(1, 0.0, "cp", "1", pools=(POOL,))
    columns = {column.title: column.value(POOL) for column in RESOURCES["pools"].columns(snapshot)}
    assert (columns["BAND"], columns["QUEUED"]) == ("busy 83%", "3 (free 1, paid 2)")
