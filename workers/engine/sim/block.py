"""One KV block."""

from __future__ import annotations

from workers.engine.sim.native import i64, mypyc_attr


@mypyc_attr(acyclic=True)
class Block:
    """``references`` counts the tables that it is in. ``key`` stands for its content, where that can be found.
    ``previous`` and ``next`` are the numbers of its neighbours in the queue of the idle."""

    __slots__ = ("key", "next", "number", "previous", "references")

    def __init__(self, number: i64) -> None:
        self.number: i64 = number
        self.references: i64 = 0
        self.key: int | None = None
        self.previous: i64 = 0
        self.next: i64 = 0
