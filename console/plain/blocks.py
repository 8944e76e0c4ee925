"""A KV cache as lines: who holds which blocks, which of them are shared, and how it adds up."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import groupby

from console import figures
from console.plain.table import Column, table
from console.text import fit, literal
from control_plane.contracts.step import BlockSnapshot, BlockTable


def block_lines(snapshot: BlockSnapshot, worker_id: str, room: int | None) -> Iterator[str]:
    """Shared blocks have a ``*``. Numbers are the engine's own; a run of neighbours is told by its ends."""
    shared = {each.block for each in snapshot.shared}
    yield (
        f"worker/{worker_id} after step {snapshot.step}: {figures.count(snapshot.total_blocks)} blocks of "
        f"{figures.plural(snapshot.block_size, 'token')}"
    )
    yield sums(snapshot)
    if snapshot.tables:
        columns: Sequence[Column[BlockTable]] = (
            Column("REQUEST", lambda t: t.request_id, keep=9),
            Column("TOKENS", lambda t: str(t.computed), right=True, keep=6),
            Column("BLOCKS", lambda t: str(len(t.blocks)), right=True, keep=7),
            Column("SHARED", lambda t: str(len(shared.intersection(t.blocks))), right=True, keep=7),
            Column("TABLE", lambda t: runs(t.blocks, shared), keep=8),
        )
        yield ""
        yield from table(snapshot.tables, columns, room).lines
    lines = [
        ("shared", "  ".join(f"{run}* by {count}" for run, count in _alike(snapshot))),
        ("cached-free", runs(sorted(snapshot.cached_free))),
        ("waiting", ", ".join(f"{literal(each.request_id)} ({each.tokens} tokens)" for each in snapshot.waiting)),
    ]
    yield ""
    for label, text in lines:
        line = f"{label:<12}{text or figures.NONE}"
        yield line if room is None else fit(line, room)


def sums(snapshot: BlockSnapshot) -> str:
    held = sum(len(each.blocks) for each in snapshot.tables)
    used, cached, free = snapshot.used_blocks, snapshot.cached_free_blocks, snapshot.free_blocks
    saved = f", {held - used} saved by sharing" if held > used else ""
    return (
        f"{used} used + {cached} cached-free + {free} free = {used + cached + free}"
        f" ({figures.percent(used / snapshot.total_blocks if snapshot.total_blocks else None)} used{saved})"
    )


def runs(blocks: Sequence[int], shared: Collection[int] = ()) -> str:
    """Blocks in their order, neighbours that follow each other as ``4-9``, shared ones with a ``*``."""
    told = []
    for (_, is_shared), group in groupby(enumerate(blocks), key=lambda at: (at[1] - at[0], at[1] in shared)):
        numbers = [block for _, block in group]
        ends = str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"
        told.append(ends + "*" * is_shared)
    return " ".join(told)


def _alike(snapshot: BlockSnapshot) -> Iterator[tuple[str, int]]:
    """Runs of shared blocks with as many references."""
    for count, group in groupby(sorted(snapshot.shared, key=lambda each: each.block), key=lambda each: each.references):
        yield runs([each.block for each in group]), count
