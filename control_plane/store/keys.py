"""API keys: who may call. Only digests are stored; a key itself is seen once, by whoever made it."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from control_plane.contracts.grant import Grant
from control_plane.store.database import Database
from control_plane.store.tables import api_keys

API_KEY_PREFIX: Final = "sk-inferdeck-"
OPERATOR_KEY_PREFIX: Final = "op-inferdeck-"


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
    """Every method is one short transaction and may wait for the database: call it from a thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._grants: tuple[object, Mapping[bytes, Grant]] = (None, {})

    def lookup(self, key: str) -> KeyRecord | None:
        """The record of a valid key; None for one that is unknown or revoked."""
        wanted = digest(key)
        query = sa.select(api_keys).where(api_keys.c.sha256 == wanted, api_keys.c.revoked_unix.is_(None))
        with self._database.transaction() as connection:
            row = connection.execute(query).one_or_none()
        if row is None or not hmac.compare_digest(row.sha256, wanted):
            return None
        return KeyRecord(**row._mapping)

    def grants(self) -> Mapping[bytes, Grant]:
        """What each key that may be used now may do, by its SHA-256. As long as none was added or revoked it is the
        same object, and cheap."""
        columns = api_keys.c
        changes = sa.select(sa.func.count(), sa.func.max(columns.created_unix), sa.func.count(columns.revoked_unix))
        query = sa.select(columns.sha256, columns.id, columns.tenant).where(columns.revoked_unix.is_(None))
        with self._database.transaction() as connection:
            state = tuple(connection.execute(changes).one())
            if state != self._grants[0]:
                rows = connection.execute(query).all()
                self._grants = (state, {bytes.fromhex(row.sha256): Grant(row.id, row.tenant) for row in rows})
        return self._grants[1]

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
        return record

    def revoke(self, key_id: str) -> bool:
        """Refuse this key from now on; False where there is no such valid key."""
        with self._database.transaction() as connection:
            changed = connection.execute(
                api_keys.update()
                .where(api_keys.c.id == key_id, api_keys.c.revoked_unix.is_(None))
                .values(revoked_unix=time.time())
            )
        return changed.rowcount > 0

    def all(self) -> tuple[KeyRecord, ...]:
        """Every key there ever was, oldest first."""
        with self._database.transaction() as connection:
            rows = connection.execute(sa.select(api_keys).order_by(api_keys.c.created_unix, api_keys.c.id))
            return tuple(KeyRecord(**row._mapping) for row in rows)
