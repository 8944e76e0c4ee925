"""Conversations, their items, and turns."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "conversations",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("tenant", sa.String(200), nullable=False),
        sa.Column("created_unix", sa.Float, nullable=False),
        sa.Column("updated_unix", sa.Float, nullable=False),
        sa.Column("metadata_json", sa.Text, nullable=False),
        sa.Column("items", sa.Integer, nullable=False),
        sa.Column("characters", sa.Integer, nullable=False),
        sa.Column("last_seq", sa.Integer, nullable=False),
    )
    op.create_index("conversations_by_tenant", "conversations", ["tenant", "created_unix", "id"])
    op.create_table(
        "turns",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("tenant", sa.String(200), nullable=False),
        sa.Column("conversation_id", sa.String(64), sa.ForeignKey("conversations.id", ondelete="CASCADE")),
        sa.Column("previous_id", sa.String(64), nullable=False),
        sa.Column("api", sa.String(32), nullable=False),
        sa.Column("model", sa.String(256), nullable=False),
        sa.Column("owner", sa.String(128), nullable=False),
        sa.Column("answer_id", sa.String(64), nullable=False),
        sa.Column("settings_json", sa.Text, nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("reason", sa.String(64), nullable=False),
        sa.Column("created_unix", sa.Float, nullable=False),
        sa.Column("ended_unix", sa.Float, nullable=False),
        sa.Column("prompt_tokens", sa.Integer, nullable=False),
        sa.Column("cached_tokens", sa.Integer, nullable=False),
        sa.Column("output_tokens", sa.Integer, nullable=False),
    )
    op.create_index("turns_by_conversation", "turns", ["conversation_id"])
    op.create_index("turns_by_status", "turns", ["status", "owner"])
    op.create_table(
        "conversation_items",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("conversation_id", sa.String(64), sa.ForeignKey("conversations.id", ondelete="CASCADE")),
        sa.Column("turn_id", sa.String(64), nullable=False),
        sa.Column("seq", sa.Integer, nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("created_unix", sa.Float, nullable=False),
        sa.UniqueConstraint("conversation_id", "seq", name="items_in_order"),
    )
    op.create_index("items_by_turn", "conversation_items", ["turn_id", "seq"])


def downgrade() -> None:
    for table in ("conversation_items", "turns", "conversations"):
        op.drop_table(table)
