"""The policy that is in force, and every one that was."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Final

import sqlalchemy as sa

from control_plane.contracts.access import Actor, PolicyChange, PolicyVersion
from control_plane.contracts.errors import Conflict, NotFound
from control_plane.contracts.policy import Policy
from control_plane.contracts.policy_document import differences, document_of, policy_of
from control_plane.store import audit
from control_plane.store.changes import count_change
from control_plane.store.database import Database
from control_plane.store.tables import api_keys, policies

_NAMED: Final = 5


def current_policy(connection: sa.Connection) -> Policy:
    """The newest version; version 0 is what comes with the program."""
    query = sa.select(policies.c.document).order_by(policies.c.version.desc()).limit(1)
    document = connection.execute(query).scalar_one_or_none()
    return Policy() if document is None else policy_of(json.loads(document))


class Policies:
    """Every method is one short transaction and may wait for the database: call it from a thread."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, version: int | None = None) -> Policy:
        """The policy in force, or that of a version. Raises NotFound."""
        with self._database.transaction() as connection:
            if version is None:
                return current_policy(connection)
            query = sa.select(policies.c.document).where(policies.c.version == version)
            document = connection.execute(query).scalar_one_or_none()
        if document is None:
            if version == 0:
                return Policy()
            raise NotFound(f"there is no policy of version {version}", param="version", hint="inferdeck policy history")
        return policy_of(json.loads(document))

    def set(
        self, change: Callable[[Policy], Policy], actor: Actor, *, version: int | None = None, dry_run: bool = False
    ) -> PolicyChange:
        """Make ``change`` of the policy in force the one in force. ``version`` is the one that was looked at.

        Raises Conflict where another version is in force, or where a tier would go that keys have, and whatever
        ``change`` raises.
        """
        with self._database.transaction() as connection:
            count_change(connection)
            before = current_policy(connection)
            if version is not None and version != before.version:
                raise Conflict(
                    f"version: {version} was to be changed, but {before.version} is in force by now",
                    param="version",
                    hint="inferdeck policy get",
                )
            draft = change(before)
            found = differences(before, draft)
            document = document_of(draft) | {"version": before.version + 1 if found else before.version}
            after = policy_of(document)
            _keep_tiers_in_use(connection, before, after)
            if dry_run or not found:
                connection.rollback()
                return PolicyChange(before, after)
            connection.execute(
                policies.insert().values(
                    version=after.version,
                    at_unix=time.time(),
                    by=actor.name,
                    document=json.dumps(document, ensure_ascii=False),
                    differences=json.dumps(found, ensure_ascii=False),
                )
            )
            audit.write(connection, actor, "policy.set", "policy", document_of(before), document)
        return PolicyChange(before, after)

    def history(self) -> tuple[PolicyVersion, ...]:
        """Every version but the first, which came with the program; oldest first."""
        columns = policies.c
        query = sa.select(columns.version, columns.at_unix, columns.by, columns.differences).order_by(columns.version)
        with self._database.transaction() as connection:
            rows = connection.execute(query).all()
        return tuple(
            PolicyVersion(row.version, row.at_unix, row.by, tuple(json.loads(row.differences))) for row in rows
        )


def _keep_tiers_in_use(connection: sa.Connection, before: Policy, after: Policy) -> None:
    """Raises Conflict naming the keys of a tier that is to go."""
    for tier in before.tiers:
        if tier in after.tiers:
            continue
        columns = api_keys.c
        query = sa.select(columns.id).where(columns.tier == tier, columns.revoked_unix.is_(None)).order_by(columns.id)
        users = connection.execute(query).scalars().all()
        if users:
            more = f" and {len(users) - _NAMED} more" if len(users) > _NAMED else ""
            raise Conflict(
                f"tiers.{tier}: these keys have this tier: {', '.join(users[:_NAMED])}{more}",
                param=f"tiers.{tier}",
                hint=f"inferdeck key set {users[0]} tier=NAME, or revoke it; then take the tier away",
            )
