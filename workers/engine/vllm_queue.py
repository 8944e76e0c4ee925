"""vLLM's waiting queue in its order, without looking at all of it.

Its own iterator copies the heap and pops from the copy, which with thousands waiting costs more than a step.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

from workers.engine.choice_id import public_id
from workers.engine.step_payload import Waiting


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


def waiting_head(scheduler: Any, most: int) -> list[Waiting]:
    """Those that a scheduler takes next."""
    head = islice(chain(scheduler.kv_holding_waiting, in_order(scheduler.waiting)), most)
    return [
        (public_id(each.request_id), each.num_tokens, each.priority, each.status.name == "PREEMPTED") for each in head
    ]
