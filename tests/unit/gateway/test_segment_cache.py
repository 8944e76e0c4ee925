from __future__ import annotations

from array import array

from control_plane.gateway.prompt.segment_cache import SegmentCache


def test_what_was_kept_is_found() -> None:
    cache = SegmentCache(10_000)
    cache.keep("a", array("i", [1, 2]))
    assert cache.find(["a", "b"]) == {"a": array("i", [1, 2])}


def test_the_least_recently_used_go_first_and_the_size_is_bounded() -> None:
    cache = SegmentCache(10_000)
    for index in range(100):
        cache.keep(f"text {index}", array("i", range(10)))
        cache.find(["text 0"])
        assert cache.size <= 10_000
    assert set(cache.find(["text 0", "text 1", "text 99"])) == {"text 0", "text 99"}


def test_one_text_cannot_push_out_all_others() -> None:
    cache = SegmentCache(10_000)
    cache.keep("small", array("i", [1]))
    cache.keep("x" * 9_000, array("i", [1]))
    assert set(cache.find(["small", "x" * 9_000])) == {"small"}


def test_keeping_twice_counts_once() -> None:
    cache = SegmentCache(10_000)
    cache.keep("a", array("i", [1]))
    size = cache.size
    cache.keep("a", array("i", [1]))
    assert cache.size == size
