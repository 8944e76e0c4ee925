"""Tiers, limits and expiry of keys; operators, policies, audit; a site for what is one fleet's."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")

# Of the tables that get a site: what they have beside it, and what of that is in their key.
_SITED = {
    "pool_replicas": (
        "pool",
        (
            ("pool", sa.String(64), False),
            ("replicas", sa.Integer, False),
            ("config_replicas", sa.Integer, False),
            ("set_unix", sa.Float, False),
        ),
    ),
    "cordons": ("worker_id", (("worker_id", sa.String(128), False), ("set_unix", sa.Float, False))),
    "events": (
        "seq",
        (
            ("seq", sa.BigInteger, False),
            ("at_unix", sa.Float, False),
            ("kind", sa.String(64), False),
            ("subject", sa.String(200), False),
            ("message", sa.Text, False),
            ("severity", sa.String(16), False),
        ),
    ),
}


def upgrade() -> None:
    # Keys that are there had no limits, and go on without.
    for column in (
        sa.Column("tier", sa.String(64), nullable=False, server_default="enterprise"),
        sa.Column("rpm", sa.BigInteger),
        sa.Column("tpm", sa.BigInteger),
        sa.Column("concurrency", sa.BigInteger),
        sa.Column("models", sa.Text, nullable=False, server_default="[]"),
        sa.Column("expires_unix", sa.Float),
        sa.Column("rotated_unix", sa.Float),
    ):
        op.add_column("api_keys", column)
    op.create_table(
        "retired_secrets",
        sa.Column("sha256", sa.String(64), primary_key=True),
        sa.Column("key_id", sa.String(32), sa.ForeignKey("api_keys.id"), nullable=False, index=True),
        sa.Column("until_unix", sa.Float, nullable=False),
    )
    op.create_table(
        "operators",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False, unique=True),
        sa.Column("prefix", sa.String(32), nullable=False),
        sa.Column("created_unix", sa.Float, nullable=False),
        sa.Column("revoked_unix", sa.Float),
    )
    op.create_table(
        "policies",
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at_unix", sa.Float, nullable=False),
        sa.Column("by", sa.String(200), nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("differences", sa.Text, nullable=False),
    )
    op.create_table(
        "audit",
        sa.Column("seq", _SERIAL, primary_key=True),
        sa.Column("at_unix", sa.Float, nullable=False),
        sa.Column("actor", sa.String(64), nullable=False),
        sa.Column("actor_name", sa.String(200), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("action", sa.String(64), nullable=False),
        sa.Column("target", sa.String(400), nullable=False),
        sa.Column("before", sa.Text, nullable=False),
        sa.Column("after", sa.Text, nullable=False),
        sa.Column("request_id", sa.String(160), nullable=False),
    )
    changes = op.create_table(
        "access_changes",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("count", sa.BigInteger, nullable=False),
    )
    op.bulk_insert(changes, [{"id": 1, "count": 0}])
    for name, (key, columns) in _SITED.items():
        _rebuild(name, columns, ("site", key), (("site", sa.String(32), False), *columns))


def downgrade() -> None:
    for name, (key, columns) in _SITED.items():
        _rebuild(name, columns, (key,), columns)
    for table in ("access_changes", "audit", "policies", "operators", "retired_secrets"):
        op.drop_table(table)
    with op.batch_alter_table("api_keys") as batch:
        for column in ("rotated_unix", "expires_unix", "models", "concurrency", "tpm", "rpm", "tier"):
            batch.drop_column(column)


def _rebuild(name: str, kept: tuple, key: tuple, columns: tuple) -> None:  # type: ignore[type-arg]
    """The table anew with another primary key; rows without a site are of the one fleet there was: ``''``."""
    old = f"{name}_0001" if "site" in key else f"{name}_0002"
    op.rename_table(name, old)
    # PostgreSQL keeps the name of the key's index, which the new table is going to have.
    if op.get_bind().dialect.name == "postgresql":
        op.execute(f"ALTER INDEX {name}_pkey RENAME TO {old}_pkey")
    op.create_table(
        name,
        *(
            sa.Column(column, kind, primary_key=column in key, nullable=nullable, autoincrement=False)
            for column, kind, nullable in columns
        ),
    )
    names = ", ".join(column for column, _, _ in kept)
    if "site" in key:
        op.execute(f"INSERT INTO {name} (site, {names}) SELECT '', {names} FROM {old}")
    else:
        op.execute(f"INSERT INTO {name} ({names}) SELECT {names} FROM {old} WHERE site = ''")
    op.drop_table(old)
