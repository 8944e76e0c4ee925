"""Who may call: API keys, answered from memory.

A key is looked up off the event loop and remembered for about a second, so that the database is never on a request's
way; one in use is looked up again before it has aged, and nobody waits for that. Only digests are kept.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from control_plane.contracts.errors import DropReason, Unauthenticated, Unavailable

log = logging.getLogger(__name__)

FRESH_S = 1.0
"""How long a lookup's answer is good."""

STALE_S = 10.0
"""How long a valid key stays good while its next lookup hangs or fails."""

_REFRESH_S = 0.5
_REMEMBERED = 4096
_PENDING = 256
_LONGEST_KEY = 512
_MESSAGE = "The API key is missing or not valid. Send one as 'Authorization: Bearer KEY'."


class KeyRecord(Protocol):
    """What the gateway wants to know of a key."""

    @property
    def id(self) -> str: ...

    @property
    def tenant(self) -> str: ...


class Keys(Protocol):
    """Where keys are. ``lookup`` may block; it is called in threads."""

    def lookup(self, key: str) -> KeyRecord | None: ...


class _Entry:
    """The last answer. ``asked_at`` and ``good_at`` are when a lookup last ended, and last ended well (monotonic)."""

    __slots__ = ("asked_at", "failed", "good_at", "record")

    def __init__(self, record: KeyRecord | None, now: float, *, failed: bool = False) -> None:
        self.record = record
        self.failed = failed
        self.asked_at = self.good_at = now


class KeyGate:
    """Answers at once for a key that was seen in the last second, and later for others."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self._pending: dict[bytes, list[Callable[[], None]]] = {}
        self._threads = ThreadPoolExecutor(4, "api-key")

    def check(self, authorization: bytes | None, resume: Callable[[], None]) -> KeyRecord | None:
        """The key's record; None when it has to be looked up first, then ``resume`` is called to check again.

        Raises Unauthenticated, with the same words whatever is wrong, or Unavailable when too many wait.
        """
        key = _bearer(authorization)
        digest = hashlib.sha256(key).digest()
        entry = self._entries.get(digest)
        if entry is None:
            self._ask(digest, key, resume)
            return None
        now = time.monotonic()
        age = now - entry.asked_at
        if age > FRESH_S:
            if digest in self._pending and entry.record is not None and now - entry.good_at < STALE_S:
                return entry.record
            self._ask(digest, key, resume)
            return None
        if entry.record is None:
            raise _unknown() if entry.failed else _refused()
        if age > _REFRESH_S:
            self._ask(digest, key, None)
        return entry.record

    @property
    def pending(self) -> int:
        """Lookups that have not ended."""
        return len(self._pending)

    @property
    def remembered(self) -> int:
        """Keys, valid or not, whose last answer is kept."""
        return len(self._entries)

    def stop(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _ask(self, digest: bytes, key: bytes, resume: Callable[[], None] | None) -> None:
        waiting = self._pending.get(digest)
        if waiting is None:
            if len(self._pending) >= _PENDING:
                if resume is None:
                    return
                raise Unavailable("Too many keys are being looked up.", reason=DropReason.OVERLOADED)
            waiting = self._pending[digest] = []
            loop = asyncio.get_running_loop()
            future = loop.run_in_executor(self._threads, self._keys.lookup, key.decode("ascii"))
            future.add_done_callback(lambda done: self._answered(digest, done))
        if resume is not None:
            waiting.append(resume)

    def _answered(self, digest: bytes, done: asyncio.Future[KeyRecord | None]) -> None:
        waiting = self._pending.pop(digest, [])
        if done.cancelled():
            return
        if (error := done.exception()) is not None:
            log.error("an API key could not be looked up: %s", type(error).__name__)
        now = time.monotonic()
        known = self._entries.get(digest)
        if error is None:
            self._remember(digest, _Entry(done.result(), now))
        elif known is not None and known.record is not None and now - known.good_at < STALE_S:
            known.asked_at = now
        else:
            self._remember(digest, _Entry(None, now, failed=True))
        for resume in waiting:
            resume()

    def _remember(self, digest: bytes, entry: _Entry) -> None:
        self._entries[digest] = entry
        self._entries.move_to_end(digest)
        if len(self._entries) > _REMEMBERED:
            self._entries.popitem(last=False)


def _bearer(authorization: bytes | None) -> bytes:
    scheme, _, key = (authorization or b"").partition(b" ")
    key = key.strip()
    if scheme.lower() != b"bearer" or not key or len(key) > _LONGEST_KEY or not key.isascii():
        raise _refused()
    return key


def _refused() -> Unauthenticated:
    return Unauthenticated(_MESSAGE)


def _unknown() -> Unavailable:
    return Unavailable("API keys cannot be checked at the moment.", reason=DropReason.NO_CAPACITY)
