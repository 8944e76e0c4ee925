"""The tables, for SQLite and PostgreSQL alike. Times are wall-clock seconds."""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Column, Float, Integer, MetaData, String, Table, Text

metadata: Final = MetaData()

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
)

# What an operator asked for. config_replicas is what the file said at that time: a later edit of the file wins.
pool_replicas = Table(
    "pool_replicas",
    metadata,
    Column("pool", String(64), primary_key=True),
    Column("replicas", Integer, nullable=False),
    Column("config_replicas", Integer, nullable=False),
    Column("set_unix", Float, nullable=False),
)

cordons = Table(
    "cordons",
    metadata,
    Column("worker_id", String(128), primary_key=True),
    Column("set_unix", Float, nullable=False),
)

events = Table(
    "events",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("at_unix", Float, nullable=False),
    Column("kind", String(64), nullable=False),
    Column("subject", String(200), nullable=False),
    Column("message", Text, nullable=False),
    Column("severity", String(16), nullable=False),
)
