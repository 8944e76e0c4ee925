"""The tables, for SQLite and PostgreSQL alike. Times are wall-clock seconds.

Keys, operators, policies and the audit are everyone's who uses the database. What a control plane keeps of its own
fleet has its ``site``: several may share one database.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Column, Float, ForeignKey, Integer, MetaData, String, Table, Text

metadata: Final = MetaData()

Serial: Final = BigInteger().with_variant(Integer, "sqlite")
"""A number that the database gives; SQLite gives one to INTEGER keys only."""

# limits and models that are NULL, or an empty list, are left to the tier. models is a JSON list.
api_keys = Table(
    "api_keys",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("name", String(200), nullable=False),
    Column("sha256", String(64), nullable=False, unique=True),
    Column("prefix", String(32), nullable=False),
    Column("tenant", String(200), nullable=False),
    Column("created_unix", Float, nullable=False),
    Column("revoked_unix", Float),
    Column("tier", String(64), nullable=False, server_default="enterprise"),
    Column("rpm", BigInteger),
    Column("tpm", BigInteger),
    Column("concurrency", BigInteger),
    Column("models", Text, nullable=False, server_default="[]"),
    Column("expires_unix", Float),
    Column("rotated_unix", Float),
)

# Secrets that a key had before; good until then, and never another key's again.
retired_secrets = Table(
    "retired_secrets",
    metadata,
    Column("sha256", String(64), primary_key=True),
    Column("key_id", String(32), ForeignKey("api_keys.id"), nullable=False, index=True),
    Column("until_unix", Float, nullable=False),
)

operators = Table(
    "operators",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("name", String(200), nullable=False),
    Column("role", String(16), nullable=False),
    Column("sha256", String(64), nullable=False, unique=True),
    Column("prefix", String(32), nullable=False),
    Column("created_unix", Float, nullable=False),
    Column("revoked_unix", Float),
)

# Every version of the policy; the highest is in force. document is JSON, differences (from the one before) a JSON list.
policies = Table(
    "policies",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("at_unix", Float, nullable=False),
    Column("by", String(200), nullable=False),
    Column("document", Text, nullable=False),
    Column("differences", Text, nullable=False),
)

audit = Table(
    "audit",
    metadata,
    Column("seq", Serial, primary_key=True),
    Column("at_unix", Float, nullable=False),
    Column("actor", String(64), nullable=False),
    Column("actor_name", String(200), nullable=False),
    Column("role", String(16), nullable=False),
    Column("action", String(64), nullable=False),
    Column("target", String(400), nullable=False),
    Column("before", Text, nullable=False),
    Column("after", Text, nullable=False),
    Column("request_id", String(160), nullable=False),
)

# How often something has changed; one row. Whoever changes keys, operators or policies counts first.
access_changes = Table(
    "access_changes",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("count", BigInteger, nullable=False),
)

# What an operator asked for. config_replicas is what the file said at that time: a later edit of the file wins.
pool_replicas = Table(
    "pool_replicas",
    metadata,
    Column("site", String(32), primary_key=True),
    Column("pool", String(64), primary_key=True),
    Column("replicas", Integer, nullable=False),
    Column("config_replicas", Integer, nullable=False),
    Column("set_unix", Float, nullable=False),
)

cordons = Table(
    "cordons",
    metadata,
    Column("site", String(32), primary_key=True),
    Column("worker_id", String(128), primary_key=True),
    Column("set_unix", Float, nullable=False),
)

events = Table(
    "events",
    metadata,
    Column("site", String(32), primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("at_unix", Float, nullable=False),
    Column("kind", String(64), nullable=False),
    Column("subject", String(200), nullable=False),
    Column("message", Text, nullable=False),
    Column("severity", String(16), nullable=False),
)
