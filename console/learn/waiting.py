"""Until a lesson's platform is as it should be."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from contextlib import aclosing
from typing import Final

from console.client import OperatorClient
from control_plane.contracts.errors import InferDeckError
from control_plane.contracts.fleet import MOST_ENDED, Snapshot, WorkerPhase

SETTLE_S: Final = 20.0
"""How long counters may take to say what has happened already."""

CHANGE_S: Final = 120.0
"""How long workers may take to come or go."""

POLL_S: Final = 0.1


class NotDone(InferDeckError):
    """The platform did not come to the state that the lesson waited for."""


async def until(client: OperatorClient, fact: Callable[[Snapshot], bool], otherwise: str, within_s: float) -> None:
    """Raises NotDone."""
    try:
        async with (
            asyncio.timeout(within_s),
            aclosing(client.watch(POLL_S, finished_requests=True)) as snapshots,
        ):
            async for snapshot in snapshots:
                if fact(snapshot):
                    return
    except TimeoutError:
        pass
    raise NotDone(f"{otherwise} (waited {within_s:.0f} s)")


async def at_rest(client: OperatorClient, running: set[str], over: set[str]) -> None:
    """Until what has ended (``over``) is told as ended, and engines have let go of it; what still runs (``running``) is
    left alone. Not for ever: a worker that is stuck may be what the lesson is about."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SETTLE_S):
            while True:
                if await _quiet(client, running, over):
                    return
                await asyncio.sleep(POLL_S)


async def _quiet(client: OperatorClient, running: set[str], over: set[str]) -> bool:
    snapshot = await client.get_snapshot(finished_requests=True)
    active = {request.id for request in snapshot.requests if request.phase.active}
    known = {request.id for request in snapshot.requests}
    # More calls than are kept as ended can't all be known.
    if active - running or not (over <= known or len(known) >= MOST_ENDED):
        return False
    if running:
        return True
    for worker in snapshot.workers:
        if worker.phase is WorkerPhase.READY:
            with contextlib.suppress(InferDeckError):
                if (await client.blocks(worker.id)).used_blocks:
                    return False
    return True


def as_wanted(snapshot: Snapshot) -> bool:
    return settled(snapshot, snapshot.pools[0].desired)


def settled(snapshot: Snapshot, replicas: int) -> bool:
    ready = [worker for worker in snapshot.workers if worker.phase is WorkerPhase.READY]
    return len(ready) == len(snapshot.workers) == replicas and any(gateway.ready for gateway in snapshot.gateways)
