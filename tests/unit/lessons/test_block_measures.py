from __future__ import annotations

import pytest

from control_plane.contracts.step import BlockSnapshot
from lessons import measures as m
from lessons.observation import Value
from tests.unit.lessons.batches import LAST, STEPS, row, step, traced

CASES: list[tuple[m.Measure, Value | None]] = [
    (m.BlockSize(), 16.0),
    (m.TableBlocks(), 4.0),
    (m.TableBlocks("short"), 3.0),
    (m.TableBlocks("late"), None),
    (m.Slack("long"), 14.0),
    (m.Slack("short"), 8.0),
    (m.Slack("late"), None),
    (m.Reserved(), 7.0),
    (m.Pieces("long"), 2.0),
    (m.Pieces("short"), 2.0),
    (m.Pieces("late"), None),
    (m.Shared(), 2.0),
    (m.Shared("tables"), 2.0),
    (m.NewBlocks("long"), 2.0),
    (m.NewBlocks("short"), 1.0),
    (m.NewBlocks(), 3.0),
    (m.NewBlocks("late"), None),
    (m.CachedFree(), 6.0),
]


@pytest.mark.parametrize(("measure", "value"), CASES)
def test_what_each_measure_says(measure: m.Measure, value: Value | None) -> None:
    assert measure.read(traced()) == value


@pytest.mark.parametrize("measure", [m.TableBlocks(), m.Slack(), m.Pieces(), m.Shared(), m.NewBlocks()])
def test_where_steps_were_lost_nothing_is_known(measure: m.Measure) -> None:
    assert measure.read(traced(lost_steps=1)) is None


@pytest.mark.parametrize("measure", [m.BlockSize(), m.Slack(), m.Reserved(), m.NewBlocks()])
@pytest.mark.parametrize(
    "blocks",
    [{}, {"w-1": BlockSnapshot(1)}, {"w-1": BlockSnapshot(1, block_size=16), "w-2": BlockSnapshot(1, block_size=32)}],
)
def test_without_one_size_of_blocks_nothing_is_counted_in_them(
    measure: m.Measure, blocks: dict[str, BlockSnapshot]
) -> None:
    assert measure.read(traced(blocks=blocks)) is None


def test_where_nobody_shares_a_block_is_in_one_table() -> None:
    alone = traced(steps={"w-1": STEPS[:3]})
    assert m.Shared().read(alone) == 0
    assert m.Shared("tables").read(alone) == 1


def test_a_table_whose_blocks_follow_each_other_is_in_one_piece() -> None:
    one = step(1, row("a", LAST, 40, 0, joined=True, new_blocks=(7, 8, 9), blocks=3), preempted=())
    end = step(2, finished=STEPS[6].finished)
    assert m.Pieces("long").read(traced(steps={"w-1": (one, end)})) == 1
