"""vLLM's waiting queue in its order, without looking at all of it.

Its own iterator copies the heap and pops from the copy, which with thousands waiting costs more than a step.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any


def in_order(queue: Any) -> Iterator[Any]:
    """The queue in its order; of a heap no more is looked at than is taken."""
    heap = getattr(queue, "_heap", None)
    if heap is None:
        yield from queue
        return
    ahead = [(heap[0], 0)] if heap else []
    while ahead:
        request, index = heapq.heappop(ahead)
        yield request
        for child in (2 * index + 1, 2 * index + 2):
            if child < len(heap):
                heapq.heappush(ahead, (heap[child], child))
