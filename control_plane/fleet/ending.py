"""How a worker's process is ended: asked, waited for, killed."""

from __future__ import annotations

import asyncio
import contextlib
import signal

from control_plane.contracts.errors import InferDeckError
from control_plane.fleet.launcher.process import kill_session
from control_plane.fleet.worker import Worker


async def ask_to_end(worker: Worker, grace_s: float) -> None:
    """By its own service where it answers, by a signal where it does not; what runs may go on for the grace."""
    if worker.client is not None and worker.info is not None:
        with contextlib.suppress(InferDeckError):
            await worker.client.stop(grace_s)
            return
    if worker.process is not None:
        worker.process.send(signal.SIGTERM)


async def end(worker: Worker, grace_s: float, killed_s: float) -> None:
    """All the way; it is killed where it takes ``killed_s`` longer than the grace."""
    await ask_to_end(worker, grace_s)
    if worker.process is None:
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(grace_s + killed_s):
            await worker.process.wait()
    kill(worker)
    await worker.process.wait()


def kill(worker: Worker) -> None:
    """With whatever its process has started."""
    if worker.process is not None:
        worker.process.send(signal.SIGKILL)
        kill_session(worker.process.pid, worker.process.ticks)
