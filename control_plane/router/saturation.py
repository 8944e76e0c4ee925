"""When an endpoint is full. Pure.

An engine batches so many sequences at a time and queues the rest. One more batch's worth waiting there keeps it from
ever running dry; beyond that a call is better off waiting at the router, where it can still go to whichever worker is
free first, be cancelled without a trace, and be told in time that there is no room.
"""

from __future__ import annotations

QUEUED_BATCHES = 1


def full(held: int, batch: int) -> bool:
    """Whether an endpoint that holds ``held`` sequences and runs ``batch`` of them at a time (0: it names no limit)
    should get no more."""
    return batch > 0 and held >= batch * (1 + QUEUED_BATCHES)
