"""Operators: who may use the operators' API, and as what. Only digests of their keys are stored."""

from __future__ import annotations

import dataclasses
import hmac
import secrets
import time
from typing import Any, Final

import sqlalchemy as sa

from control_plane.contracts.access import Actor, NewOperator, OperatorView, Role
from control_plane.contracts.errors import Conflict, InvalidRequest, NotFound
from control_plane.store import audit
from control_plane.store.changes import count_change
from control_plane.store.database import Database
from control_plane.store.secret import OPERATOR_KEY_PREFIX, digest, new_key, shown
from control_plane.store.tables import operators

_NAME_CHARACTERS: Final = 200


class Operators:
    """Every method is one short transaction and may wait for the database: call it from a thread."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def lookup(self, key: str) -> OperatorView | None:
        """The operator that has this key; None where nobody has, or has any more."""
        wanted = digest(key)
        query = sa.select(operators).where(operators.c.sha256 == wanted, operators.c.revoked_unix.is_(None))
        with self._database.transaction() as connection:
            row = connection.execute(query).one_or_none()
        if row is None or not hmac.compare_digest(row.sha256, wanted):
            return None
        return _view(row)

    def create(self, name: str, role: Role, actor: Actor, *, dry_run: bool = False) -> NewOperator:
        """Raises InvalidRequest, or Conflict where a valid operator has this name."""
        if not name or not name.isprintable() or len(name) > _NAME_CHARACTERS:
            raise InvalidRequest(
                f"name: 1 to {_NAME_CHARACTERS} characters that can be printed are needed", param="name"
            )
        if role is Role.UNSPECIFIED:
            raise InvalidRequest("role: viewer, operator or admin", param="role")
        key = new_key(OPERATOR_KEY_PREFIX)
        view = OperatorView(f"op-{secrets.token_hex(6)}", name, role, shown(key, OPERATOR_KEY_PREFIX), time.time())
        with self._database.transaction() as connection:
            count_change(connection)
            taken = sa.select(operators.c.id).where(operators.c.name == name, operators.c.revoked_unix.is_(None))
            if connection.execute(taken).first() is not None:
                raise Conflict(
                    f"name: there is an operator {name!r} already", param="name", hint="inferdeck operator list"
                )
            if dry_run:
                connection.rollback()
                return NewOperator(view)
            values = dataclasses.asdict(view) | {"role": role.name.lower(), "sha256": digest(key)}
            connection.execute(operators.insert().values(**values))
            audit.write(connection, actor, "operator.create", f"operator/{view.id}", {}, _told(view))
        return NewOperator(view, key)

    def revoke(self, reference: str, actor: Actor, *, dry_run: bool = False) -> OperatorView:
        """Refuse this operator from now on; the same again where that is so. Raises NotFound."""
        with self._database.transaction() as connection:
            count_change(connection)
            query = sa.select(operators).where(sa.or_(operators.c.id == reference, operators.c.name == reference))
            rows = connection.execute(query.order_by(operators.c.revoked_unix.is_(None).desc())).all()
            if not rows:
                raise NotFound(
                    f"there is no operator {reference!r}", param="operator_id", hint="inferdeck operator list"
                )
            before = _view(rows[0])
            if before.revoked_unix is not None:
                connection.rollback()
                return before
            after = dataclasses.replace(before, revoked_unix=time.time())
            if dry_run:
                connection.rollback()
                return after
            connection.execute(
                operators.update().where(operators.c.id == before.id).values(revoked_unix=after.revoked_unix)
            )
            audit.write(connection, actor, "operator.revoke", f"operator/{before.id}", _told(before), _told(after))
        return after

    def all(self) -> tuple[OperatorView, ...]:
        """Every operator there ever was, oldest first."""
        with self._database.transaction() as connection:
            rows = connection.execute(sa.select(operators).order_by(operators.c.created_unix, operators.c.id)).all()
        return tuple(map(_view, rows))


def _view(row: Any) -> OperatorView:
    values = {name: value for name, value in row._mapping.items() if name != "sha256"}
    return OperatorView(**values | {"role": Role[row.role.upper()]})


def _told(view: OperatorView) -> dict[str, Any]:
    return {"name": view.name, "role": view.role.name.lower(), "state": view.state}
