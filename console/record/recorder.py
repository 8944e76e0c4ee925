"""Follows a platform and writes down what it tells: snapshots, requests, events, engine steps.

Goes on through whatever happens to the platform: what cannot be heard is a gap in the recording, not its end. Memory is
bounded: when the disk is slow nothing more is read from the platform, which skips what nobody takes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeVar, cast

from console.kv_ledger import KvLedger
from console.record.batches import Batches
from console.record.changes import changes
from console.record.file_header import Session
from console.record.kinds import Kind, Record
from console.record.notes import DECISIONS, EVENTS, End, Gap
from console.record.writer import RecordingWriter
from control_plane.contracts.decision import DecisionView
from control_plane.contracts.errors import InferDeckError
from control_plane.contracts.fleet import Event, Snapshot
from control_plane.contracts.step import BlockSnapshot, StepFrame, TraceState
from control_plane.contracts.wire.packed import packed

T = TypeVar("T")

INTERVAL_S: Final = 0.5
FLUSH_S: Final = 0.5
"""How long a record may wait for its frame."""
KEYFRAME_S: Final = 10.0
SILENCE_S: Final = 8.0
FIRST_RETRY_S: Final = 0.5
LAST_RETRY_S: Final = 5.0
_EVENTS_KNOWN: Final = 20_000


class Source(Protocol):
    """What is needed of an ``OperatorClient``."""

    def watch(self, interval_s: float = 0.0, *, finished_requests: bool = False) -> AsyncIterator[Snapshot]: ...

    def events(self, since: int = 0, *, follow: bool = False) -> AsyncIterator[Event]: ...

    def watch_steps(self, worker_id: str, from_step: int = 0, live: bool = True) -> AsyncIterator[StepFrame]: ...

    def follow_decisions(self) -> AsyncIterator[tuple[DecisionView, ...]]: ...


Connect = Callable[[], AbstractAsyncContextManager[Source]]
"""A connection to the platform as it is found now. Raises an InferDeckError where there is none."""


@dataclass(slots=True)
class Tally:
    """What was recorded so far. ``gaps`` counts the platform's, the workers' and the events'."""

    records: int = 0
    snapshots: int = 0
    steps: int = 0
    events: int = 0
    decisions: int = 0
    gaps: int = 0


class Recorder:
    """``session`` is what the recorder says of itself, ``clock`` its time in unix seconds, which never goes back;
    ``tell`` hears when the platform is lost and found."""

    def __init__(
        self,
        connect: Connect,
        writer: RecordingWriter,
        session: Session,
        *,
        steps: bool,
        clock: Callable[[], float],
        tell: Callable[[str], object] = lambda text: None,
    ) -> None:
        self._connect = connect
        self._writer = writer
        self._steps = steps
        self._clock = clock
        self._tell = tell
        self.tally = Tally()
        self.heard = asyncio.Event()
        """Set with the first snapshot."""
        self._batches = Batches()
        self._batches.begin_at(writer.last_unix)
        self._space = asyncio.Event()
        self._space.set()
        self._waiting = asyncio.Event()
        self._snapshot: tuple[Snapshot, float] | None = None
        self._keyframe_due = float("-inf")
        self._standing: dict[str, tuple[KvLedger, TraceState]] = {}
        self._followed: Counter[str] = Counter()
        self._unavailable: dict[str, StepFrame | None] = {}
        self._stood: dict[str, tuple[str, int]] = {}
        self._instances: dict[str, str] = {}
        self._followers: dict[str, asyncio.Task[None]] = {}
        self._known: OrderedDict[tuple[float, int], None] = OrderedDict()
        self._decided: OrderedDict[tuple[str, float, int], None] = OrderedDict()
        self._add(Kind.SESSION, session.to_json())

    async def run(self, until: asyncio.Event) -> None:
        """Record until the event is set. Raises RecordingStopped when the file takes no more; until the first
        snapshot, whatever stands between us and the platform is an error too."""
        listening = asyncio.create_task(self._listen())
        writing = asyncio.create_task(self._write())
        ending = asyncio.create_task(_set(until))
        try:
            await asyncio.wait({listening, writing, ending}, return_when=asyncio.FIRST_COMPLETED)
            for task in (writing, listening):
                if task.done():
                    task.result()
        finally:
            for task in (listening, writing, ending):
                task.cancel()
            await asyncio.gather(listening, writing, ending, return_exceptions=True)

    async def finish(self, reason: str) -> None:
        """The last words, and everything that still waits."""
        self._add(Kind.END, End(reason).to_json())
        await self._flush()

    async def _listen(self) -> None:
        delay = FIRST_RETRY_S
        while True:
            reason = "the platform ended the connection"
            before = self.tally.snapshots
            try:
                await self._hear()
            except TimeoutError:
                reason = f"nothing heard for {SILENCE_S:.0f} s"
            except InferDeckError as error:
                if self.tally.snapshots == 0:
                    raise
                reason = error.message
            if self.tally.snapshots > before:
                self._gap("", reason)
                self._tell(f"{reason}: trying again")
                self._snapshot = None
                delay = FIRST_RETRY_S
            await asyncio.sleep(delay)
            delay = min(delay * 2, LAST_RETRY_S)

    async def _hear(self) -> None:
        """One connection, to its end."""
        async with self._connect() as source:
            events = asyncio.create_task(
                self._keep_hearing(EVENTS, lambda: self._hear_events(source), lambda: self.tally.events)
            )
            decisions = asyncio.create_task(
                self._keep_hearing(DECISIONS, lambda: self._hear_decisions(source), lambda: self.tally.decisions)
            )
            try:
                async with _closing(source.watch(INTERVAL_S, finished_requests=True)) as stream:
                    while True:
                        async with asyncio.timeout(SILENCE_S):
                            snapshot = await anext(stream, None)
                        if snapshot is None:
                            return
                        self._take(snapshot)
                        if self._steps:
                            await self._follow_workers(source, snapshot)
                        await self._space.wait()
            finally:
                events.cancel()
                decisions.cancel()
                await asyncio.gather(events, decisions, return_exceptions=True)
                await self._leave_workers(())

    def _take(self, snapshot: Snapshot) -> None:
        now = self._clock()
        if self._snapshot is None and self.tally.snapshots:
            self._tell("the platform is back")
        if self._snapshot is None or now >= self._keyframe_due:
            heard = self._add(Kind.SNAPSHOT, packed(snapshot), keyframe=True)
            for worker_id, (ledger, trace) in self._standing.items():
                self._add(Kind.TABLES, packed(StepFrame(trace=trace, base=ledger.snapshot())), worker_id)
            self._keyframe_due = now + KEYFRAME_S
        else:
            heard = self._add(Kind.CHANGES, changes(*self._snapshot, snapshot))
        self._snapshot = (snapshot, heard)
        self.tally.snapshots += 1
        self.heard.set()

    async def _keep_hearing(self, subject: str, hear: Callable[[], Awaitable[str]], heard: Callable[[], int]) -> None:
        """``hear`` again and again, whatever ends it, until the task is cancelled. ``heard`` counts what it gave."""
        delay, told = FIRST_RETRY_S, ""
        while True:
            before = heard()
            reason, failed = await _end_of(hear)
            went_on = heard() > before
            if went_on:
                told, delay = "", FIRST_RETRY_S
            if reason and reason != told:
                self._gap(subject, reason, lost=went_on or failed)
                if failed:
                    self._tell(f"{subject}: {reason}")
                told = reason
            await asyncio.sleep(delay)
            delay = min(delay * 2, LAST_RETRY_S)

    async def _hear_events(self, source: Source) -> str:
        """All that are told, each once: a control plane that is back tells the old ones again."""
        async with _closing(source.events(follow=True)) as stream:
            async for event in stream:
                if (event.at_unix, event.seq) not in self._known:
                    self._add(Kind.EVENT, packed(event))
                    self._known[event.at_unix, event.seq] = None
                    if len(self._known) > _EVENTS_KNOWN:
                        self._known.popitem(last=False)
                    self.tally.events += 1
                    await self._space.wait()
        return "the events ended"

    async def _hear_decisions(self, source: Source) -> str:
        """Each once: a connection begins with those that a router has kept."""
        async with _closing(source.follow_decisions()) as stream:
            async for decisions in stream:
                for decision in decisions:
                    mark = (decision.router_id, decision.at_unix, decision.number)
                    if mark not in self._decided:
                        self._add(Kind.DECISION, packed(decision), decision.request_id)
                        self._decided[mark] = None
                        if len(self._decided) > _EVENTS_KNOWN:
                            self._decided.popitem(last=False)
                        self.tally.decisions += 1
                await self._space.wait()
        return "the decisions ended"

    async def _follow_workers(self, source: Source, snapshot: Snapshot) -> None:
        present = {worker.id: worker.info.instance_id if worker.info else "" for worker in snapshot.workers}
        await self._leave_workers(present)
        self._instances = present
        for worker_id in present.keys() - self._followers.keys():
            self._followers[worker_id] = asyncio.create_task(
                self._keep_hearing(
                    worker_id,
                    partial(self._follow, source, worker_id),
                    partial(self._followed.__getitem__, worker_id),
                )
            )

    async def _leave_workers(self, present: Collection[str] = ()) -> None:
        """Stop following those that are not there any more. Raises what ended a follower."""
        gone = [worker_id for worker_id, task in self._followers.items() if worker_id not in present or task.done()]
        tasks = [self._followers.pop(worker_id) for worker_id in gone]
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome

    async def _follow(self, source: Source, worker_id: str) -> str:
        """One stream of steps, to its end; why it ended, "" where there is nothing to lose."""
        instance = self._instances.get(worker_id, "")
        stood_instance, stood = self._stood.get(worker_id, ("", 0))
        first = stood + 1 if stood and instance == stood_instance else 0
        ledger, trace = KvLedger(BlockSnapshot(0)), TraceState()
        try:
            async with _closing(source.watch_steps(worker_id, first)) as stream:
                async for frame in stream:
                    if worker_id not in self._standing and frame.trace.step < first - 1:
                        self._stood.pop(worker_id)  # a new engine, whose steps count from 1 again
                        return "the engine began anew"
                    trace = frame.trace
                    if frame.base is not None:
                        ledger = KvLedger(frame.base)
                    ledger.apply_all(frame.steps)
                    if self._unavailable.get(worker_id) != frame:
                        self._add(Kind.STEPS, packed(frame), worker_id)
                    self._unavailable[worker_id] = frame if trace.unavailable else None
                    self._standing[worker_id] = ledger, trace
                    self._followed[worker_id] += len(frame.steps)
                    self.tally.steps += len(frame.steps)
                    await self._space.wait()
        finally:
            self._standing.pop(worker_id, None)
            if ledger.step:
                self._stood[worker_id] = (instance, ledger.step)
        return "" if trace.unavailable else "the steps ended"

    def _gap(self, subject: str, reason: str, *, lost: bool = True) -> None:
        """``lost``: something was heard before, and is not heard any more."""
        self._add(Kind.GAP, Gap(reason).to_json(), subject)
        self.tally.gaps += lost

    def _add(self, kind: Kind, payload: bytes, subject: str = "", *, keyframe: bool = False) -> float:
        """The record's time."""
        self._batches.add(Record(kind, self._clock(), payload, subject), keyframe=keyframe)
        self.tally.records += 1
        if self._batches.full:
            self._space.clear()
        if self._batches.frame_ready:
            self._waiting.set()
        return self._batches.last_unix

    async def _write(self) -> None:
        """To disk, soon: after FLUSH_S, or when a frame is full."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FLUSH_S):
                    await self._waiting.wait()
            self._waiting.clear()
            await self._flush()

    async def _flush(self) -> None:
        for batch in self._batches.sealed():
            writing = asyncio.create_task(asyncio.to_thread(self._writer.write, batch.records, keyframe=batch.keyframe))
            try:
                await asyncio.shield(writing)
            except asyncio.CancelledError:
                await writing  # half a frame must not meet the next one
                self._batches.written(batch)
                raise
            self._batches.written(batch)
        if not self._batches.full:
            self._space.set()


async def _end_of(hear: Callable[[], Awaitable[str]]) -> tuple[str, bool]:
    """Why it ended, and whether by a fault of ours. Only the end of the task that waits goes through."""
    try:
        return await hear(), False
    except InferDeckError as error:
        return error.message, False
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return "the call was cancelled", False  # by the connection under it
    except Exception as error:
        return f"the recorder failed: {type(error).__name__}: {error}", True


async def _set(event: asyncio.Event) -> None:
    await event.wait()


def _closing(stream: AsyncIterator[T]) -> aclosing[AsyncGenerator[T, None]]:
    """Sources promise iterators; theirs are generators, which have to be closed where they are read."""
    return aclosing(cast("AsyncGenerator[T, None]", stream))
