"""How many conversations each tenant has."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "tenant_counts",
        sa.Column("tenant", sa.String(200), primary_key=True),
        sa.Column("conversations", sa.BigInteger, nullable=False),
    )
    op.execute(
        "INSERT INTO tenant_counts (tenant, conversations) SELECT tenant, COUNT(*) FROM conversations GROUP BY tenant"
    )


def downgrade() -> None:
    op.drop_table("tenant_counts")
