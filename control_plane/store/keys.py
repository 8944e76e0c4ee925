"""API keys: who may call. Only digests are stored; a key itself is seen once, by whoever made it."""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import threading
import time
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from control_plane.store.database import Database
from control_plane.store.tables import api_keys

API_KEY_PREFIX: Final = "sk-inferdeck-"
OPERATOR_KEY_PREFIX: Final = "op-inferdeck-"

REFRESH_S: Final = 2.0
"""How old the table in memory may get before a lookup has it read again: what a revocation takes at most."""

_MISS_REFRESH_S: Final = 0.05
_MISS_WAIT_S: Final = 0.05
_SLOW_PAUSE_S: Final = 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """A key as it is stored. ``prefix`` is what people tell keys apart by."""

    id: str
    name: str
    sha256: str
    prefix: str
    tenant: str
    created_unix: float
    revoked_unix: float | None = None


def new_key(prefix: str) -> str:
    """A fresh secret: the prefix and 32 characters that are safe in URLs (192 bits)."""
    return prefix + secrets.token_urlsafe(24)


def digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


class ApiKeys:
    """Lookups come from memory and never touch the database on the caller's thread, so a busy, locked or absent
    database cannot stall a request; a thread reads the table again when it is older than ``REFRESH_S``.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._by_digest: dict[str, KeyRecord] = {}
        self._read_at = -1e9
        self._fresh = threading.Event()
        self._reading = False
        self._no_wait_until = 0.0
        self._load()

    def lookup(self, key: str) -> KeyRecord | None:
        """The record of a valid key; None for one that is unknown or revoked.

        A key made a moment ago by another process is found too: for an unknown one the table is read again, at most
        20 times a second, and waited for up to 50 ms; not at all while the database is slow.
        """
        wanted = digest(key)
        record = self._match(wanted)
        now = time.monotonic()
        if now - self._read_at > (REFRESH_S if record else _MISS_REFRESH_S):
            self._refresh()
            if record is None and now > self._no_wait_until:
                if not self._fresh.wait(_MISS_WAIT_S):
                    self._no_wait_until = now + _SLOW_PAUSE_S
                record = self._match(wanted)
        return record

    def create(self, name: str, tenant: str = "default") -> tuple[str, KeyRecord]:
        """A new key and its record. The key is in no file and no log: give it to whoever asked."""
        key = new_key(API_KEY_PREFIX)
        return key, self.add(key, name, tenant)

    def add(self, key: str, name: str, tenant: str = "default") -> KeyRecord:
        """Store an existing key; the record that is there already where it was added before."""
        wanted = digest(key)
        record = KeyRecord(
            id=f"key-{secrets.token_hex(6)}",
            name=name,
            sha256=wanted,
            prefix=key[: len(API_KEY_PREFIX) + 4],
            tenant=tenant,
            created_unix=time.time(),
        )
        with self._database.transaction() as connection:
            row = connection.execute(sa.select(api_keys).where(api_keys.c.sha256 == wanted)).one_or_none()
            if row is not None:
                return KeyRecord(**row._mapping)
            connection.execute(
                api_keys.insert().values(
                    id=record.id,
                    name=record.name,
                    sha256=record.sha256,
                    prefix=record.prefix,
                    tenant=record.tenant,
                    created_unix=record.created_unix,
                )
            )
        self._load()
        return record

    def revoke(self, key_id: str) -> bool:
        """Refuse this key from now on; False where there is no such valid key."""
        with self._database.transaction() as connection:
            changed = connection.execute(
                api_keys.update()
                .where(api_keys.c.id == key_id, api_keys.c.revoked_unix.is_(None))
                .values(revoked_unix=time.time())
            )
        self._load()
        return changed.rowcount > 0

    def all(self) -> tuple[KeyRecord, ...]:
        """Every key there ever was, oldest first."""
        with self._database.transaction() as connection:
            rows = connection.execute(sa.select(api_keys).order_by(api_keys.c.created_unix, api_keys.c.id))
            return tuple(KeyRecord(**row._mapping) for row in rows)

    def _match(self, wanted: str) -> KeyRecord | None:
        record = self._by_digest.get(wanted)
        if record is None or not hmac.compare_digest(record.sha256, wanted):
            return None
        return record

    def _load(self) -> None:
        with self._lock:
            self._by_digest = {record.sha256: record for record in self.all() if record.revoked_unix is None}
            self._read_at = time.monotonic()

    def _refresh(self) -> None:
        with self._lock:
            if self._reading:
                return
            self._reading = True
            self._fresh.clear()
        threading.Thread(target=self._read_again, name="api-keys", daemon=True).start()

    def _read_again(self) -> None:
        try:
            self._load()
        except SQLAlchemyError as error:
            self._read_at = time.monotonic()
            log.warning("cannot read the API keys, the last known ones stay valid: %s", type(error).__name__)
        finally:
            self._reading = False
            self._fresh.set()
