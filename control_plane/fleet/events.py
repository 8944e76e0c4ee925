"""What happened to the fleet, for people: the newest in memory, and in the store, which may be late with it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Final

from control_plane.contracts.fleet import Event
from control_plane.fleet.changes import Changes
from control_plane.store import EventLog
from control_plane.store.outage import cause_of, is_outage
from control_plane.tasks import Tasks

RECENT: Final = 1000
MOST_UNSAVED: Final = 10_000
"""As many wait for a database that does not answer; of more, the log alone tells."""

FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 5.0
"""Between two attempts to store an event."""

_UNSAVED_WAIT_S: Final = 5.0
_LEVELS: Final = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

log = logging.getLogger(__name__)


class Events:
    """Recording never waits for the database: events are numbered here and stored in order by one task."""

    def __init__(self, store: EventLog, changes: Changes) -> None:
        self._store = store
        self._changes = changes
        self._recent: deque[Event] = deque(store.since(0, RECENT), maxlen=RECENT)
        self._last = store.last()
        self._unsaved: asyncio.Queue[Event | None] = asyncio.Queue()
        self._closing = asyncio.Event()
        self._saving = Tasks().keep(self._save, "events")

    def record(self, kind: str, subject: str, message: str, severity: str = "info") -> None:
        """Something happened. ``subject`` is like "worker/smollm2-1", ``severity`` info, warning or error."""
        self._last += 1
        event = Event(self._last, time.time(), kind, subject, message, severity)
        self._recent.append(event)
        if self._unsaved.qsize() < MOST_UNSAVED:
            self._unsaved.put_nowait(event)
        log.log(_LEVELS[severity], message, extra={"event": kind, "subject": subject})
        self._changes.bump()

    def recent(self, count: int) -> tuple[Event, ...]:
        """The newest, oldest first."""
        return tuple(self._recent)[-count:]

    async def since(self, seq: int) -> Sequence[Event]:
        """Every event after a number that is still kept, oldest first. Of those that left memory while the database did
        not answer, what it has."""
        if self._recent and self._recent[0].seq <= seq + 1:
            return [event for event in self._recent if event.seq > seq]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_UNSAVED_WAIT_S):
                await self._unsaved.join()
        return await asyncio.to_thread(self._store.since, seq)

    async def follow(self, seq: int) -> AsyncIterator[Event]:
        """Events after a number as they come, without end."""
        while True:
            revision = self._changes.revision
            for event in await self.since(seq):
                seq = event.seq
                yield event
            await self._changes.after(revision, 3600.0)

    async def close(self) -> None:
        """Store what is not stored yet, unless the database does not answer."""
        self._closing.set()
        self._unsaved.put_nowait(None)
        await self._saving

    async def _save(self) -> None:
        while True:
            event = await self._unsaved.get()
            try:
                if event is None or not await self._stored(event):
                    return
            finally:
                self._unsaved.task_done()

    async def _stored(self, event: Event) -> bool:
        """Try as long as the database does not answer; False where there is no time for that any more."""
        pause = FIRST_PAUSE_S
        while True:
            try:
                await asyncio.to_thread(self._store.append, event)
                return True
            except Exception as error:
                passes = is_outage(error)
                if pause == FIRST_PAUSE_S or not passes or self._closing.is_set():
                    log.warning("an event could not be stored", extra={"seq": event.seq, "cause": cause_of(error)})
                if not passes:
                    return True
            if self._closing.is_set():
                return False
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._closing.wait()
            pause = min(2 * pause, LONGEST_PAUSE_S)
