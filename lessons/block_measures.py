"""Measures of KV blocks: whose they are, who shares them, what is kept of them. Pure; see ``measures``.

A call's blocks are known once it has ended. Where steps were lost, nothing is told of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from control_plane.contracts.block_tables import BlockTables
from control_plane.contracts.step import SharedBlock, StepRow
from lessons.batch_measures import models_of, requests_of, rows_of, steps_of
from lessons.observation import Observation, Value


def _rows(seen: Observation, calls: str) -> Iterator[StepRow]:
    requests = requests_of(seen, calls)
    return (row for step in steps_of(seen) for row in rows_of(step, requests))


def _block_size(seen: Observation) -> int:
    """0 where engines do not tell, or differ."""
    sizes = {blocks.block_size for blocks in seen.blocks.values()}
    return sizes.pop() if len(sizes) == 1 else 0


@dataclass(frozen=True, slots=True)
class BlockSize:
    """How many tokens' keys and values a block holds, out of the engine."""

    word: ClassVar[str] = "block_size"
    unit: ClassVar[str] = "tokens"

    def read(self, seen: Observation) -> Value | None:
        return float(_block_size(seen)) or None


@dataclass(frozen=True, slots=True)
class TableBlocks:
    """The most blocks in the table of one of these calls."""

    word: ClassVar[str] = "table_blocks"
    unit: ClassVar[str] = "blocks"
    calls: str = ""

    def read(self, seen: Observation) -> Value | None:
        return max((float(row.blocks) for row in _rows(seen, self.calls)), default=None)


@dataclass(frozen=True, slots=True)
class Slack:
    """The most places, a token's each, that one of these calls held at a step and had nothing in."""

    word: ClassVar[str] = "slack"
    unit: ClassVar[str] = "places"
    calls: str = ""

    def read(self, seen: Observation) -> Value | None:
        size = _block_size(seen)
        empty = (float(row.blocks * size - row.computed - row.tokens) for row in _rows(seen, self.calls))
        return max(empty, default=None) if size else None


@dataclass(frozen=True, slots=True)
class Reserved:
    """Blocks that one of these calls would hold if each had, from its start, room for the longest that the engine takes
    in one piece. Worked out, not measured."""

    word: ClassVar[str] = "reserved"
    unit: ClassVar[str] = "blocks"

    def read(self, seen: Observation) -> Value | None:
        size = _block_size(seen)
        longest = max((model.max_context for model in models_of(seen)), default=0)
        return float(-(-longest // size)) if size and longest else None


@dataclass(frozen=True, slots=True)
class Pieces:
    """Into how many runs of neighbouring blocks the table of one of these calls was cut, at most."""

    word: ClassVar[str] = "pieces"
    unit: ClassVar[str] = "pieces"
    calls: str = ""

    def read(self, seen: Observation) -> Value | None:
        requests = requests_of(seen, self.calls)
        most: float | None = None
        for steps in seen.steps.values() if not seen.lost_steps else ():
            tables = BlockTables()
            for step in steps:
                for table in tables.apply(step):
                    if table.request_id in requests:
                        most = max(most or 0.0, float(_runs(table.blocks)))
        return most


def _runs(blocks: tuple[int, ...]) -> int:
    return sum(not index or block != blocks[index - 1] + 1 for index, block in enumerate(blocks))


@dataclass(frozen=True, slots=True)
class Shared:
    """The most blocks that were in more than one table at a time; or ``tables``: the most tables that one block was
    in."""

    word: ClassVar[str] = "shared"
    unit: ClassVar[str] = ""
    what: Literal["blocks", "tables"] = "blocks"

    def read(self, seen: Observation) -> Value | None:
        found = list(_shared(seen))
        if not found:
            return None
        if self.what == "blocks":
            return float(max(map(len, found)))
        return float(max((each.references for shared in found for each in shared), default=1))


def _shared(seen: Observation) -> Iterator[tuple[SharedBlock, ...]]:
    """After every step."""
    for steps in seen.steps.values() if not seen.lost_steps else ():
        tables = BlockTables()
        for step in steps:
            tables.apply(step)
            yield tables.shared()


@dataclass(frozen=True, slots=True)
class NewBlocks:
    """Blocks that these calls took when they joined the batch, without those that were cached already."""

    word: ClassVar[str] = "new_blocks"
    unit: ClassVar[str] = "blocks"
    calls: str = ""

    def read(self, seen: Observation) -> Value | None:
        size = _block_size(seen)
        joined = [row for row in _rows(seen, self.calls) if row.joined]
        return float(sum(row.blocks - row.cached_tokens // size for row in joined)) if joined and size else None


@dataclass(frozen=True, slots=True)
class CachedFree:
    """Blocks that nobody uses now, and whose content can still be hit."""

    word: ClassVar[str] = "cached_free"
    unit: ClassVar[str] = "blocks"

    def read(self, seen: Observation) -> Value | None:
        return float(sum(each.cached_free_blocks for each in seen.blocks.values())) if seen.blocks else None
