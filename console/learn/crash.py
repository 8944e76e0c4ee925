"""Workers that die while they answer one call."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from console.client import OperatorClient
from console.learn.calls import Made
from console.learn.waiting import POLL_S, SETTLE_S, NotDone
from control_plane.contracts.failure import Failure, FailureKind
from control_plane.contracts.fleet import RequestView, Snapshot


async def crash_under(client: OperatorClient, made: Made, times: int) -> None:
    """The worker that answers the call dies, then the one that goes on with it, ``times`` in all. Returns once the call
    has more text than it had from them, or is over. Raises NotDone where it is over too soon, or stands still."""
    deaths, dead, placed, pieces = 0, -1, -1, 0
    try:
        async with (
            asyncio.timeout(SETTLE_S * (times + 1)),
            aclosing(client.watch(POLL_S, finished_requests=True)) as snapshots,
        ):
            async for snapshot in snapshots:
                if made.over:
                    break
                view, heard = _view(snapshot, made), len(made.answer.token_times)
                if view is None or not view.worker_id or view.retries <= dead:
                    continue
                if view.retries != placed:
                    placed, pieces = view.retries, heard
                elif heard > pieces:
                    if deaths == times:
                        return
                    await client.inject(view.worker_id, Failure(FailureKind.CRASH))
                    deaths, dead = deaths + 1, placed
    except TimeoutError:
        raise NotDone(f"the call {made.shape.name!r} stands still") from None
    if deaths < times:
        raise NotDone(f"the call {made.shape.name!r} was over before {times} workers died under it")


def _view(snapshot: Snapshot, made: Made) -> RequestView | None:
    return next((request for request in snapshot.requests if request.id == made.request_id), None)
