"""The head of a queue."""

from __future__ import annotations

import heapq
from itertools import islice
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from workers.engine.vllm_queue import in_order


@given(st.lists(st.integers(), unique=True), st.integers(0, 20))
def test_of_a_heap_the_least_come_first_and_it_stays_as_it_is(values: list[int], count: int) -> None:
    heap = list(values)
    heapq.heapify(heap)
    before = list(heap)
    assert list(islice(in_order(SimpleNamespace(_heap=heap)), count)) == sorted(values)[:count]
    assert heap == before


def test_any_other_queue_has_its_own_order() -> None:
    assert list(in_order([3, 1, 2])) == [3, 1, 2]
