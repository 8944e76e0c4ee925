"""API keys, desired replicas, cordons, events."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False, unique=True),
        sa.Column("prefix", sa.String(32), nullable=False),
        sa.Column("tenant", sa.String(200), nullable=False),
        sa.Column("created_unix", sa.Float, nullable=False),
        sa.Column("revoked_unix", sa.Float),
    )
    op.create_table(
        "pool_replicas",
        sa.Column("pool", sa.String(64), primary_key=True),
        sa.Column("replicas", sa.Integer, nullable=False),
        sa.Column("config_replicas", sa.Integer, nullable=False),
        sa.Column("set_unix", sa.Float, nullable=False),
    )
    op.create_table(
        "cordons",
        sa.Column("worker_id", sa.String(128), primary_key=True),
        sa.Column("set_unix", sa.Float, nullable=False),
    )
    op.create_table(
        "events",
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at_unix", sa.Float, nullable=False),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("subject", sa.String(200), nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("severity", sa.String(16), nullable=False),
    )


def downgrade() -> None:
    for table in ("events", "cordons", "pool_replicas", "api_keys"):
        op.drop_table(table)
