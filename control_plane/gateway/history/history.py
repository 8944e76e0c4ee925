"""The gateway's way to the store of conversations: threads, patience, and a journal for what is under way."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from control_plane.contracts.conversation import Item, Turn, TurnEnd
from control_plane.contracts.errors import DropReason, InferDeckError, InternalError, StoreFull, Unavailable
from control_plane.gateway.history.kept_turn import KeptTurn, Then
from control_plane.store import Conversations, Database, Turns
from control_plane.store.journal import Journal, JournalFile
from control_plane.store.patience import Patience

T = TypeVar("T")

ASK_S = 10.0
"""How long reads, writes and beginnings are tried, in seconds; their callers wait."""

END_S = 120.0
"""How long an end is tried without a rest. One that fails for so long stays in the journal."""

AGAIN_S = 30.0
"""Seconds until ends that stayed in the journal are tried again."""

_READERS = 4
_ENDERS = 4
_WAITING = 512
_STOP_S = 10.0

log = logging.getLogger(__name__)


class History:
    """Made in the process that serves; used on its event loop. Whatever is given as ``then`` is called there."""

    def __init__(self, database: Database, journal: Journal) -> None:
        self.conversations = Conversations(database)
        self.turns = Turns(database)
        self._journal = journal
        self._patience = Patience()
        # Apart, so that ends which wait for a locked database keep nobody from asking, nor the other way round.
        self._asking = ThreadPoolExecutor(_READERS, "history")
        self._ending = ThreadPoolExecutor(_ENDERS, "history-ends")
        self._waiting: Counter[str] = Counter()
        self._open_ends: set[asyncio.Future[Any]] = set()
        self._left: dict[str, Callable[[], None]] = {}
        """What has failed for ``END_S``, by its turn. Whole in memory: the disk may be as full as the database."""
        self._timer: asyncio.TimerHandle | None = None
        self._stopping = False

    @property
    def owner(self) -> str:
        """What turns of this process are told by."""
        return self._journal.owner

    def ask(self, tenant: str, work: Callable[[], T], then: Callable[[T | InferDeckError], None]) -> None:
        """Do this in a thread, again and again while the database does not answer."""
        # As many as places are left: whoever is alone has half of them, and there is always one for somebody else.
        if self._waiting[tenant] >= _WAITING - self._waiting.total():
            then(Unavailable("Too many calls wait for the conversation store.", reason=DropReason.OVERLOADED))
            return
        self._waiting[tenant] += 1

        def answered(future: asyncio.Future[T]) -> None:
            self._waiting[tenant] -= 1
            if not self._waiting[tenant]:
                del self._waiting[tenant]
            if not future.cancelled():
                then(_outcome(future))

        self._run(self._asking, lambda: self._patience.try_for(ASK_S, work)).add_done_callback(answered)

    def recall(
        self, tenant: str, conversation_id: str, previous_id: str, then: Callable[[list[Item] | InferDeckError], None]
    ) -> None:
        """What was said before, oldest first."""
        if conversation_id:
            self.ask(tenant, lambda: self.conversations.history(tenant, conversation_id), then)
        else:
            self.ask(tenant, lambda: self.turns.chain(tenant, previous_id), then)

    def begin(self, turn: Turn, then: Callable[[KeptTurn | InferDeckError], None]) -> None:
        """Store the turn's messages; when that is done it may run."""
        tried = False

        def begin() -> KeptTurn:
            nonlocal tried
            tried = True
            self.turns.begin(turn)
            return self._keep(turn.id)

        def begun(kept: KeptTurn | InferDeckError) -> None:
            then(kept)
            if tried and isinstance(kept, Unavailable | StoreFull):
                # It may have been stored without an answer that says so, and its caller is told to send it again.
                self._keep(turn.id).withdraw()

        self.ask(turn.tenant, begin, begun)

    def store_end(self, turn_id: str, end: TurnEnd, file: JournalFile, then: Then) -> None:
        self._finish(turn_id, lambda: self.turns.end(turn_id, end), file, then)

    def store_withdrawal(self, turn_id: str, file: JournalFile, then: Then) -> None:
        self._finish(turn_id, lambda: self.turns.withdraw(turn_id), file, then)

    async def stop(self) -> None:
        """Wait for what is being stored; what takes too long is left to the journal, and to who sweeps it."""
        self._stopping = True
        if self._timer is not None:
            self._timer.cancel()
        if self._left:
            self._try_left()
        if self._open_ends:
            await asyncio.wait(self._open_ends, timeout=_STOP_S)
        self._patience.hurry()
        closing = asyncio.get_running_loop().run_in_executor(None, self._close)
        await asyncio.wait({closing}, timeout=_STOP_S)
        self._ending.shutdown(wait=False, cancel_futures=True)

    def _close(self) -> None:
        self._asking.shutdown(cancel_futures=True)
        if not any(True for _ in self._journal.kept()):
            # Of those whose callers were gone before they could run.
            self._patience.try_for(0.0, lambda: self.turns.close(self.owner))
            self._journal.close()

    def _keep(self, turn_id: str) -> KeptTurn:
        return KeptTurn(turn_id, self, self._journal.file(turn_id))

    def _finish(self, turn_id: str, work: Callable[[], Any], file: JournalFile, then: Then) -> None:
        def finish(seconds: float) -> None:
            self._patience.try_for(seconds, work)
            file.remove()

        def finished(future: asyncio.Future[None]) -> None:
            self._open_ends.discard(future)
            if not future.cancelled() and (error := future.exception()) is not None:
                file.close()
                log.error("the end of a turn could not be stored: %s", type(error).__name__, extra={"turn_id": turn_id})
                self._left[turn_id] = lambda: finish(0.0)
                self._set_timer()
            then()

        future = self._run(self._ending, lambda: finish(END_S))
        self._open_ends.add(future)
        future.add_done_callback(finished)

    def _set_timer(self) -> None:
        if self._timer is None and not self._stopping:
            self._timer = asyncio.get_running_loop().call_later(AGAIN_S, self._try_left)

    def _try_left(self) -> None:
        """Once for each, in a thread, until the database does not answer, or has no room."""
        left = dict(self._left)

        def tried(future: asyncio.Future[list[str]]) -> None:
            self._open_ends.discard(future)
            self._timer = None
            for turn_id in () if future.cancelled() else future.result():
                self._left.pop(turn_id, None)
                log.info("the end of a turn is stored at last", extra={"turn_id": turn_id})
            if self._left:
                self._set_timer()

        future = self._run(self._ending, lambda: _those_done(left))
        self._open_ends.add(future)
        future.add_done_callback(tried)

    def _run(self, threads: ThreadPoolExecutor, work: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(threads, work)


def _those_done(left: dict[str, Callable[[], None]]) -> list[str]:
    done = []
    for turn_id, finish in left.items():
        try:
            finish()
        except (Unavailable, StoreFull):
            break
        except Exception as error:
            log.debug("the end of a turn could not be stored: %s", type(error).__name__, extra={"turn_id": turn_id})
        else:
            done.append(turn_id)
    return done


def _outcome(future: asyncio.Future[Any]) -> Any:
    """What came of it, or the error that tells of it."""
    error = future.exception()
    if error is None:
        return future.result()
    if isinstance(error, InferDeckError):
        return error
    # Its text may hold what a caller wrote.
    log.error("the conversation store failed: %s", type(error).__name__)
    return InternalError("The conversation store failed.")
