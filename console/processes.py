"""Other processes, known by pid and start time, so that a reused pid is never taken for the one that was meant."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

from control_plane.contracts.worker_spec import alive


async def ended(pid: int, ticks: int) -> None:
    """Return when exactly this process has ended; at once where it already has."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop = asyncio.get_running_loop()
    gone: asyncio.Future[None] = loop.create_future()
    try:
        if alive(pid, ticks):
            loop.add_reader(handle, _settle, gone)
            await gone
    finally:
        loop.remove_reader(handle)
        os.close(handle)


def send(pid: int, ticks: int, number: signal.Signals) -> None:
    """Signal exactly this process, if it is still there."""
    if alive(pid, ticks):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _settle(gone: asyncio.Future[None]) -> None:
    if not gone.done():
        gone.set_result(None)
