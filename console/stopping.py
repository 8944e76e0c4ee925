"""Stopping a platform, whatever is left of it: by its own shutdown where it answers, by its records where not."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from console.client import OperatorClient
from console.home import Home, State
from console.processes import alive, ended, send
from control_plane.contracts.errors import InferDeckError
from control_plane.contracts.worker_spec import start_ticks

Say = Callable[[str], None]

PATIENCE_S = 20.0
"""Beyond the grace: how long an orderly end may take before processes are killed."""

TERM_S = 10.0
"""How long a process without a control plane may take to end after SIGTERM; a worker lets calls finish for 5 s."""


@dataclass(frozen=True, slots=True)
class Leftover:
    """A process that belongs to a home: known by its record, so that a reused pid is never taken for it."""

    name: str
    pid: int
    ticks: int
    engine_pids: tuple[tuple[int, int], ...] = ()
    record: Path | None = None

    @property
    def alive(self) -> bool:
        return alive(self.pid, self.ticks)


def leftovers(home: Home) -> list[Leftover]:
    """The live processes that the records and command lines in a home speak of, the control plane not among them."""
    found: dict[int, Leftover] = {}
    for kind in ("gateway", "worker"):
        for path in sorted((home.path / "run" / f"{kind}s").glob("*.json")):
            if not path.name.endswith(".spec.json") and (entry := _recorded(path, kind)) is not None and entry.alive:
                found[entry.pid] = entry
    for entry in _by_command_line(home):
        found.setdefault(entry.pid, entry)
    return list(found.values())


def _recorded(path: Path, kind: str) -> Leftover | None:
    try:
        values = json.loads(path.read_text())
        engines = tuple((int(pid), start_ticks(int(pid))) for pid in values.get("engine_pids", ()))
        return Leftover(f"{kind}/{path.stem}", int(values["pid"]), int(values["start_ticks"]), engines, path)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _by_command_line(home: Home) -> Iterator[Leftover]:
    """Gateways and workers that have no record yet. An exact argument names the home, or a spec inside it."""
    root = str(home.path)
    state = home.state()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            words = (entry / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        module = words[words.index("-m") + 1] if "-m" in words[:-1] else ""
        ours = (module == "control_plane" and "gateway" in words and root in words) or (
            module == "workers" and any(word.startswith(f"{root}/run/workers/") for word in words)
        )
        pid = int(entry.name)
        if ours and (ticks := start_ticks(pid)) and (state is None or pid != state.pid):
            yield Leftover(f"process {pid}", pid, ticks)


async def stop(home: Home, *, grace_s: float, say: Say = lambda _: None) -> bool:
    """Stop everything of a home. True if there was anything to stop. Nothing of it runs when this returns."""
    state = home.running()
    was_there = state is not None
    if state is not None:
        await _shut_down(home, state, grace_s, say)
    left = leftovers(home)
    if left:
        was_there = True
        say(f"left over: {', '.join(entry.name for entry in left)}")
        await _end(left, hard=grace_s == 0 and state is not None)
    _remove_records(home)
    return was_there


async def _shut_down(home: Home, state: State, grace_s: float, say: Say) -> None:
    over = asyncio.create_task(ended(state.pid, state.start_ticks))
    try:
        async with asyncio.timeout(grace_s + PATIENCE_S):
            try:
                async with OperatorClient(home.target()) as client:
                    async for progress in client.shutdown(grace_s):
                        if progress.message:
                            say(progress.message)
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


async def _end(left: list[Leftover], *, hard: bool) -> None:
    """SIGTERM, then SIGKILL for what is still there; an engine never outlives its worker."""
    for entry in left:
        send(entry.pid, entry.ticks, signal.SIGKILL if hard else signal.SIGTERM)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(TERM_S):
            for entry in left:
                await ended(entry.pid, entry.ticks)
    for entry in left:
        for pid, ticks in ((entry.pid, entry.ticks), *entry.engine_pids):
            send(pid, ticks, signal.SIGKILL)
            await ended(pid, ticks)


def _remove_records(home: Home) -> None:
    """What would make the next start believe that something runs."""
    for folder in ("workers", "gateways"):
        for path in (home.path / "run" / folder).glob("*.json"):
            path.unlink(missing_ok=True)
    if home.running() is None:
        home.state_path.unlink(missing_ok=True)
