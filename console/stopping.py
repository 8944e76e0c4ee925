"""Stopping a platform, whatever is left of it: by its own shutdown where it answers, by its records where not."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable

from console.client import OperatorClient
from console.home import Home, State, Target
from console.leftovers import Leftover
from console.processes import ended, send
from control_plane.contracts.errors import Forbidden, InferDeckError, Unauthenticated
from control_plane.contracts.worker_spec import alive

Say = Callable[[str], None]

PATIENCE_S = 20.0
"""Beyond the grace: how long an orderly end may take before processes are killed."""

TERM_S = 10.0
"""How long a process without a control plane may take to end after SIGTERM; a worker lets calls finish for 5 s."""


async def stop(home: Home, *, grace_s: float, say: Say = lambda _: None, target: Target | None = None) -> bool:
    """Stop everything of a home. True if there was anything to stop. Nothing of it runs when this returns.

    ``target``: by whose key, the home's own where nothing is said. Raises Forbidden or Unauthenticated, and has stopped
    nothing, where that one may not.
    """
    state = home.running()
    was_there = state is not None
    if state is not None:
        # One that was paused can neither hear nor end.
        send(state.pid, state.start_ticks, signal.SIGCONT)
        await _shut_down(target or home.target(), state, grace_s, say)
    if (living := home.unannounced()) is not None:
        # It would begin again whatever is ended beside it.
        was_there = True
        say(f"a control plane (pid {living.pid}) without a readable state.json; asking it to end")
        await _end([living], hard=False, patience_s=grace_s + PATIENCE_S)
    left = home.leftovers()
    if left:
        was_there = True
        say(f"left over: {', '.join(entry.name for entry in left)}")
        await _end(left, hard=grace_s == 0 and state is not None, patience_s=TERM_S)
    _remove_records(home)
    return was_there


async def _shut_down(target: Target, state: State, grace_s: float, say: Say) -> None:
    over = asyncio.create_task(ended(state.pid, state.start_ticks))
    try:
        async with asyncio.timeout(grace_s + PATIENCE_S):
            try:
                async with OperatorClient(target) as client:
                    async for progress in client.shutdown(grace_s):
                        if progress.message:
                            say(progress.message)
            except (Forbidden, Unauthenticated):
                raise
            except InferDeckError as error:
                if alive(state.pid, state.start_ticks):
                    say(f"no orderly shutdown ({error.message}); asking the process to end")
                    send(state.pid, state.start_ticks, signal.SIGTERM)
            await over
    except TimeoutError:
        say("the control plane does not end; killing it")
        send(state.pid, state.start_ticks, signal.SIGKILL)
        await ended(state.pid, state.start_ticks)
    finally:
        over.cancel()


async def _end(left: list[Leftover], *, hard: bool, patience_s: float) -> None:
    """SIGTERM, then SIGKILL for what is still there; an engine never outlives its worker."""
    for entry in left:
        send(entry.pid, entry.ticks, signal.SIGKILL if hard else signal.SIGTERM)
        send(entry.pid, entry.ticks, signal.SIGCONT)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(patience_s):
            for entry in left:
                await ended(entry.pid, entry.ticks)
    for entry in left:
        for pid, ticks in ((entry.pid, entry.ticks), *entry.engine_pids):
            send(pid, ticks, signal.SIGKILL)
            await ended(pid, ticks)


def _remove_records(home: Home) -> None:
    """What would make the next start believe that something runs."""
    for folder in (home.folder.workers, home.folder.gateways, home.folder.routers):
        for path in folder.glob("*.json"):
            path.unlink(missing_ok=True)
    if home.running() is None:
        home.state_path.unlink(missing_ok=True)
        home.settings_path.unlink(missing_ok=True)
