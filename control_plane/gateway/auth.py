"""Who may call: all valid keys, in memory.

The store is read off the event loop, once for everybody, and at most a few times a second however many ask: a wrong key
costs a digest and a look into a table. Only digests are kept.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from control_plane.contracts.errors import DropReason, Unauthenticated, Unavailable
from control_plane.contracts.grant import Grant

log = logging.getLogger(__name__)

FRESH_S = 1.0
"""How long what was read says that a key is valid."""

UNKNOWN_S = 0.25
"""How long what was read says that a key is not valid; the next few that ask then wait for another reading."""

STALE_S = 10.0
"""How long a valid key stays good while the store hangs or fails."""

FIRST_S = 10.0
"""How long the first reading may take: a gateway that has just begun has nothing that could do meanwhile."""

_REFRESH_S = 0.5
_HANGS_S = 0.5
_WAITING = 256
_LONGEST_KEY = 512
_MESSAGE = "The API key is missing, wrong, expired or revoked. Send one as 'Authorization: Bearer KEY'."


class Keys(Protocol):
    """Where keys are."""

    def grants(self) -> Mapping[bytes, Grant]:
        """What each key that is not revoked may do, by the key's SHA-256; the same object again where nothing has
        changed. May block: called in a thread."""
        ...


class KeyGate:
    """Answers at once as long as what was read of the store is new enough, and later where it is not."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._grants: Mapping[bytes, Grant] = {}
        self._good_at = self._ended_at = -math.inf
        self._started_at: float | None = None
        self._waiting: list[Callable[[], None]] = []
        self._alarm: asyncio.TimerHandle | None = None
        self._thread = ThreadPoolExecutor(1, "api-keys")

    def check(self, authorization: bytes | None, resume: Callable[[], None]) -> Grant | None:
        """What the key may do; None when the store has to be read first, then ``resume`` is called to check again.

        Raises Unauthenticated, with the same words whatever is wrong, or Unavailable when the store does not answer.
        """
        # How long a look into a table takes tells something of the digest, which tells nothing of the key.
        grant = self._grants.get(hashlib.sha256(_bearer(authorization)).digest())
        if grant is not None and grant.expires_unix is not None and grant.expires_unix <= time.time():
            grant = None
        now = time.monotonic()
        age = now - self._good_at
        if age <= (UNKNOWN_S if grant is None else _REFRESH_S):
            if grant is None:
                raise _refused()
            return grant
        answers = self._refresh(now)
        if grant is not None:
            if age <= FRESH_S or (age <= STALE_S and not answers):
                return grant
        elif not answers or len(self._waiting) >= _WAITING:
            # Too many ask at once, or the store is slow: what was read a moment ago has to do.
            if age <= FRESH_S:
                raise _refused()
            answers = False
        if not answers:
            raise Unavailable("API keys cannot be checked at the moment.", reason=DropReason.NO_CAPACITY)
        self._waiting.append(resume)
        if self._alarm is None:
            self._alarm = asyncio.get_running_loop().call_later(self._patience_s, self._wake)
        return None

    @property
    def reading(self) -> bool:
        """Whether the store is being read."""
        return self._started_at is not None

    def stop(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    @property
    def _patience_s(self) -> float:
        return FIRST_S if self._good_at == -math.inf else _HANGS_S

    def _refresh(self, now: float) -> bool:
        """Read the store, unless that is being done or was tried just now; False where it will not answer soon."""
        if self._started_at is not None:
            return now - self._started_at <= self._patience_s
        if now - self._ended_at <= UNKNOWN_S:
            return False
        self._started_at = now
        reading = asyncio.get_running_loop().run_in_executor(self._thread, self._keys.grants)
        reading.add_done_callback(self._answered)
        return True

    def _answered(self, reading: asyncio.Future[Mapping[bytes, Grant]]) -> None:
        self._started_at = None
        if reading.cancelled():
            return
        self._ended_at = time.monotonic()
        if (error := reading.exception()) is not None:
            log.error("the API keys could not be read: %s", type(error).__name__)
        else:
            self._good_at = self._ended_at
            self._grants = reading.result()
        self._wake()

    def _wake(self) -> None:
        """Let those that wait check again."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        waiting, self._waiting = self._waiting, []
        for resume in waiting:
            resume()


def _bearer(authorization: bytes | None) -> bytes:
    scheme, _, key = (authorization or b"").partition(b" ")
    key = key.strip()
    if scheme.lower() != b"bearer" or not key or len(key) > _LONGEST_KEY or not key.isascii():
        raise _refused()
    return key


def _refused() -> Unauthenticated:
    return Unauthenticated(_MESSAGE)
