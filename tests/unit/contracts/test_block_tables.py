"""Tables that follow the steps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from control_plane.contracts.block_tables import BlockTables
from control_plane.contracts.step import (
    BlockSnapshot,
    BlockTable,
    EngineStep,
    SharedBlock,
    StepFinished,
    StepKind,
    StepRow,
)


def row(request_id: str, *blocks: int, computed: int = 0, tokens: int = 1, **flags: bool) -> StepRow:
    return StepRow(request_id, StepKind.DECODE, tokens, computed, 32, new_blocks=blocks, **flags)


def test_a_table_grows_is_shared_and_is_forgotten() -> None:
    tables = BlockTables()
    tables.apply(EngineStep(1, 0.0, rows=(row("a", 1, 2, joined=True), row("b", 1, 3, joined=True))))
    assert tables.shared() == (SharedBlock(1, 2),)
    assert tables.used() == 3
    tables.apply(EngineStep(2, 0.0, rows=(row("a", 4, computed=64),), finished=(StepFinished("b", "stop"),)))
    assert tables.tables() == (BlockTable("a", (1, 2, 4), 65),)
    assert tables.shared() == ()


def test_a_request_that_is_preempted_and_resumed_has_a_new_table() -> None:
    tables = BlockTables(BlockSnapshot(4, tables=(BlockTable("a", (1, 2), 60), BlockTable("b", (3,), 9))))
    tables.apply(EngineStep(5, 0.0, rows=(row("b", 4),), preempted=("a",)))
    assert tables.blocks("a") == ()
    tables.apply(EngineStep(6, 0.0, rows=(row("a", 7, 8, resumed=True),)))
    assert tables.blocks("a") == (7, 8)


def test_steps_that_the_base_has_are_not_applied_twice() -> None:
    tables = BlockTables(BlockSnapshot(4, tables=(BlockTable("a", (1,), 9),)))
    tables.apply_all([EngineStep(4, 0.0, rows=(row("a", 2),)), EngineStep(5, 0.0, rows=(row("a", 3),))])
    assert tables.blocks("a") == (1, 3)


def test_what_a_step_gives_up_is_told_in_order() -> None:
    base = BlockSnapshot(1, tables=(BlockTable("a", (1,), 9), BlockTable("b", (2,), 8), BlockTable("c", (3, 4), 40)))
    tables = BlockTables(base)
    anew = StepRow("c", StepKind.DECODE, 1, 40, 32, new_blocks=(3, 4, 5), blocks=3)
    step = EngineStep(
        3,
        0.0,
        rows=(row("a", 1, resumed=True), anew, row("b", 6, computed=8)),
        preempted=("a", "unknown"),
        finished=(StepFinished("b", "stop"), StepFinished("unknown", "abort")),
    )
    assert tables.apply(step) == (BlockTable("a", (1,), 9), BlockTable("c", (3, 4), 40), BlockTable("b", (2, 6), 9))
    assert tables.apply(step) == ()
    assert tables.tables() == (BlockTable("c", (3, 4, 5), 41), BlockTable("a", (1,), 1))


@given(st.lists(st.lists(st.integers(0, 9), max_size=3), max_size=20), st.integers(0, 20))
def test_a_snapshot_in_the_middle_changes_nothing(added: list[list[int]], middle: int) -> None:
    steps = [EngineStep(i + 1, 0.0, rows=(row("a", *blocks, joined=i == 0),)) for i, blocks in enumerate(added)]
    whole, half = BlockTables(), BlockTables()
    whole.apply_all(steps)
    half.apply_all(steps[:middle])
    later = BlockTables(BlockSnapshot(half.step, tables=half.tables()))
    later.apply_all(steps)
    assert later.tables() == whole.tables()
