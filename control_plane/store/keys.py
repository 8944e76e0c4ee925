"""API keys: who may call, and what. Only digests are stored; a key itself is seen once, by whoever made it."""

from __future__ import annotations

import dataclasses
import hmac
import json
import math
import secrets
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

import sqlalchemy as sa

from control_plane.contracts import key_spec
from control_plane.contracts.access import Actor, HomeKey, KeyChange, KeySpec, KeyView, NewKey
from control_plane.contracts.errors import Conflict, InvalidRequest, NotFound
from control_plane.contracts.grant import Grant
from control_plane.contracts.policy import Limits
from control_plane.contracts.policy_document import limits_document
from control_plane.store import audit
from control_plane.store.changes import changes, count_change
from control_plane.store.database import Database
from control_plane.store.policies import current_policy
from control_plane.store.secret import API_KEY_PREFIX, digest, new_key, shown
from control_plane.store.tables import api_keys, retired_secrets

LONGEST_GRACE_S: Final = 30 * 86_400.0

_Secret = sa.select(retired_secrets.c.key_id, sa.func.max(retired_secrets.c.until_unix).label("old_until_unix"))
_OLD: Final = _Secret.group_by(retired_secrets.c.key_id).subquery()
_ROWS: Final = sa.select(api_keys, _OLD.c.old_until_unix).select_from(
    api_keys.outerjoin(_OLD, _OLD.c.key_id == api_keys.c.id)
)


class ApiKeys:
    """Every method is one short transaction and may wait for the database: call it from a thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._grants: tuple[int | None, Mapping[bytes, Grant]] = (None, {})

    def lookup(self, key: str) -> KeyView | None:
        """A key that may be used now; None for one that is unknown, expired, revoked or of before a rotation."""
        wanted = digest(key)
        with self._database.transaction() as connection:
            row = connection.execute(_ROWS.where(api_keys.c.sha256 == wanted)).one_or_none()
        if row is None or not hmac.compare_digest(row.sha256, wanted):
            return None
        view = _view(row)
        return view if view.state(time.time()) == "active" else None

    def grants(self) -> Mapping[bytes, Grant]:
        """What each key may do, by its SHA-256; each says itself when it ends. As long as nothing was changed it is the
        same object, for one query of one row."""
        with self._database.transaction() as connection:
            count = changes(connection)
            if count != self._grants[0]:
                # Read after the count: what is newer than it is read again at the next look.
                self._grants = (count, _grants(connection, time.time()))
        return self._grants[1]

    def create(self, spec: KeySpec, actor: Actor, *, dry_run: bool = False) -> NewKey:
        """A new key. It is in no file and no log: give it to whoever asked. Raises InvalidRequest."""
        key = new_key(API_KEY_PREFIX)
        view = self._insert(key, spec, actor, dry_run=dry_run)
        return NewKey(view, "" if dry_run else key)

    def add(self, key: str, spec: KeySpec, actor: Actor) -> KeyView:
        """Store an existing key; the key that had this secret first, where one ever did."""
        wanted = digest(key)
        retired = sa.select(retired_secrets.c.key_id).where(retired_secrets.c.sha256 == wanted)
        with self._database.transaction() as connection:
            query = _ROWS.where(sa.or_(api_keys.c.sha256 == wanted, api_keys.c.id.in_(retired)))
            row = connection.execute(query).one_or_none()
        return _view(row) if row is not None else self._insert(key, spec, actor)

    def change(self, reference: str, assignments: tuple[str, ...], actor: Actor, *, dry_run: bool = False) -> KeyChange:
        """Set fields of a key, as in ``key_spec.assigned``. Raises InvalidRequest, NotFound, Conflict."""
        now = time.time()
        with self._database.transaction() as connection:
            count_change(connection)
            before = _find(connection, reference)
            _must_be_valid(before)
            spec = key_spec.assigned(before.spec, assignments)
            # An expiry that is past and was not touched does not stop a change of something else.
            again = spec.expires_unix == before.spec.expires_unix
            checked = dataclasses.replace(spec, expires_unix=None) if again else spec
            key_spec.check(checked, current_policy(connection), now)
            after = dataclasses.replace(before, spec=spec)
            if dry_run or after == before:
                connection.rollback()
                return KeyChange(before, after)
            connection.execute(api_keys.update().where(api_keys.c.id == before.id).values(**_columns(spec)))
            audit.write(connection, actor, "key.set", f"key/{before.id}", told(before, now), told(after, now))
        return KeyChange(before, after)

    def rotate(self, reference: str, grace_s: float, actor: Actor, *, dry_run: bool = False) -> tuple[str, NewKey]:
        """A new secret at once; the one before is good for ``grace_s`` seconds. The digest of the one before, too.

        Secrets before that one keep the grace that they were given, unless there is none now: then they all end.
        Raises InvalidRequest, NotFound, or Conflict for a key that is revoked.
        """
        if not 0 <= grace_s <= LONGEST_GRACE_S:
            raise InvalidRequest(f"grace_s: 0 to {LONGEST_GRACE_S:,.0f} seconds", param="grace_s")
        key, now = new_key(API_KEY_PREFIX), time.time()
        with self._database.transaction() as connection:
            count_change(connection)
            before = _find(connection, reference)
            _must_be_valid(before)
            if before.spec.expires_unix is not None and before.spec.expires_unix <= now:
                raise Conflict(
                    f"key/{before.id} has expired: a new secret of it would not be taken",
                    param="key_id",
                    hint=f"inferdeck key set {before.id} expires=30d",
                )
            columns = api_keys.c
            old = str(connection.execute(sa.select(columns.sha256).where(columns.id == before.id)).scalar_one())
            until = now + grace_s
            # Who rotates without a grace wants nobody else in: a grace that was given before ends as well.
            ends = tuple(sorted((*before.old_ends_unix, until))) if grace_s else ()
            after = dataclasses.replace(
                before,
                prefix=shown(key, API_KEY_PREFIX),
                rotated_unix=now,
                old_until_unix=max(ends, default=until),
                old_ends_unix=ends,
            )
            if dry_run:
                connection.rollback()
                return old, NewKey(after)
            if not grace_s:
                connection.execute(
                    retired_secrets.update()
                    .where(retired_secrets.c.key_id == before.id, retired_secrets.c.until_unix > now)
                    .values(until_unix=now)
                )
            connection.execute(retired_secrets.insert().values(sha256=old, key_id=before.id, until_unix=until))
            values = {"sha256": digest(key), "prefix": after.prefix, "rotated_unix": now}
            connection.execute(api_keys.update().where(columns.id == before.id).values(**values))
            told_after = told(after, now) | {"grace_s": grace_s}
            audit.write(connection, actor, "key.rotate", f"key/{before.id}", told(before, now), told_after)
        return old, NewKey(after, key)

    def revoke(self, reference: str, actor: Actor, *, dry_run: bool = False) -> KeyChange:
        """Refuse this key from now on; nothing is changed where that is so. Raises NotFound."""
        now = time.time()
        with self._database.transaction() as connection:
            count_change(connection)
            before = _find(connection, reference)
            after = before if before.revoked_unix is not None else dataclasses.replace(before, revoked_unix=now)
            if dry_run or after is before:
                connection.rollback()
                return KeyChange(before, after)
            connection.execute(api_keys.update().where(api_keys.c.id == before.id).values(revoked_unix=now))
            audit.write(connection, actor, "key.revoke", f"key/{before.id}", told(before, now), told(after, now))
        return KeyChange(before, after)

    def all(self) -> tuple[KeyView, ...]:
        """Every key there ever was, oldest first."""
        with self._database.transaction() as connection:
            rows = connection.execute(_ROWS.order_by(api_keys.c.created_unix, api_keys.c.id)).all()
            ends = _old_ends(connection, time.time())
        return tuple(_view(row, ends.get(row.id, ())) for row in rows)

    def home_key(self, secret: str) -> HomeKey:
        """What the secret in a home's file is now. ``secret`` may be empty: there is no file."""
        if not secret:
            return HomeKey(state="missing")
        wanted, now = digest(secret), time.time()
        with self._database.transaction() as connection:
            row = connection.execute(_ROWS.where(api_keys.c.sha256 == wanted)).one_or_none()
            if row is not None:
                return HomeKey(row.id, _view(row).state(now))
            columns = retired_secrets.c
            old = connection.execute(sa.select(retired_secrets).where(columns.sha256 == wanted)).one_or_none()
            if old is None:
                return HomeKey(state="unknown")
            key = _view(connection.execute(_ROWS.where(api_keys.c.id == old.key_id)).one())
        state = key.state(now)
        return HomeKey(key.id, "rotated" if state == "active" else state, old.until_unix)

    def _insert(self, key: str, spec: KeySpec, actor: Actor, *, dry_run: bool = False) -> KeyView:
        now = time.time()
        view = KeyView(f"key-{secrets.token_hex(6)}", shown(key, API_KEY_PREFIX), spec, now)
        with self._database.transaction() as connection:
            count_change(connection)
            key_spec.check(spec, current_policy(connection), now)
            if dry_run:
                connection.rollback()
                return view
            connection.execute(
                api_keys.insert().values(
                    id=view.id, sha256=digest(key), prefix=view.prefix, created_unix=now, **_columns(spec)
                )
            )
            audit.write(connection, actor, "key.create", f"key/{view.id}", {}, told(view, now))
        return view


def told(view: KeyView, now_unix: float) -> dict[str, Any]:
    """A key for the audit."""
    spec = view.spec
    return {
        "name": spec.name,
        "prefix": view.prefix,
        "tenant": spec.tenant,
        "tier": spec.tier,
        **limits_document(spec.limits),
        "models": list(spec.models),
        "expires_unix": spec.expires_unix,
        "old_ends_unix": list(view.old_ends_unix),
        "state": view.state(now_unix),
    }


def _grants(connection: sa.Connection, now: float) -> Mapping[bytes, Grant]:
    policy = current_policy(connection)
    found: dict[bytes, Grant] = {}
    by_id: dict[str, Grant] = {}
    for row in connection.execute(_ROWS.where(api_keys.c.revoked_unix.is_(None))):
        by_id[row.id] = found[bytes.fromhex(row.sha256)] = key_spec.grant_of(_view(row), policy)
    for old in connection.execute(sa.select(retired_secrets).where(retired_secrets.c.until_unix > now)):
        if (grant := by_id.get(old.key_id)) is not None:
            ends = min(old.until_unix, math.inf if grant.expires_unix is None else grant.expires_unix)
            found[bytes.fromhex(old.sha256)] = dataclasses.replace(grant, expires_unix=ends)
    return found


def _find(connection: sa.Connection, reference: str) -> KeyView:
    """The key with this id, or the one that may be used and has this name."""
    rows = connection.execute(_ROWS.where(sa.or_(api_keys.c.id == reference, api_keys.c.name == reference))).all()
    ends = _old_ends(connection, time.time())
    views = [_view(row, ends.get(row.id, ())) for row in rows]
    if exact := [view for view in views if view.id == reference]:
        return exact[0]
    valid = [view for view in views if view.revoked_unix is None] or views
    if not valid:
        raise NotFound(f"there is no key {reference!r}", param="key_id", hint="inferdeck key list")
    if len(valid) > 1:
        ids = ", ".join(view.id for view in valid[:5])
        raise InvalidRequest(
            f"{len(valid)} keys have the name {reference!r}: {ids}", param="key_id", hint="name the one meant by its id"
        )
    return valid[0]


def _old_ends(connection: sa.Connection, now: float) -> dict[str, tuple[float, ...]]:
    """Of every key that has been rotated: when the secrets before end, of those that are good yet."""
    columns = retired_secrets.c
    query = sa.select(columns.key_id, columns.until_unix).where(columns.until_unix > now).order_by(columns.until_unix)
    found: dict[str, tuple[float, ...]] = {}
    for row in connection.execute(query):
        found[row.key_id] = (*found.get(row.key_id, ()), row.until_unix)
    return found


def _must_be_valid(view: KeyView) -> None:
    if view.revoked_unix is not None:
        raise Conflict(f"key/{view.id} is revoked, for good", param="key_id", hint="inferdeck key create")


def _columns(spec: KeySpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "tenant": spec.tenant,
        "tier": spec.tier,
        **dataclasses.asdict(spec.limits),
        "models": json.dumps(spec.models, ensure_ascii=False),
        "expires_unix": spec.expires_unix,
    }


def _view(row: Any, old_ends: tuple[float, ...] = ()) -> KeyView:
    models: Iterable[str] = json.loads(row.models)
    limits = Limits(row.rpm, row.tpm, row.concurrency)
    # No secret of a revoked key is good any more, whatever it was given.
    lives = row.revoked_unix is None
    return KeyView(
        id=row.id,
        prefix=row.prefix,
        spec=KeySpec(row.name, row.tenant, row.tier, limits, tuple(models), row.expires_unix),
        created_unix=row.created_unix,
        revoked_unix=row.revoked_unix,
        rotated_unix=row.rotated_unix,
        old_until_unix=row.old_until_unix if lives else None,
        old_ends_unix=old_ends if lives else (),
    )
