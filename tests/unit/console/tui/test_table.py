from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from console.tui.screens.system import share
from console.tui.widgets import event_table, pool_tables, request_table, worker_table
from console.tui.widgets.plot_grid import LOWEST, NARROWEST, PlotGrid
from console.tui.widgets.table import Column, fitted
from tests.snapshots.memory import NOW, snapshot, worker
from tests.unit.console.tui.harness import console

ALL = (worker_table.COLUMNS, request_table.COLUMNS, event_table.COLUMNS, pool_tables.POOLS, pool_tables.MODELS)


def columns(*shapes: tuple[str, int, int, int]) -> list[Column[object]]:
    return [Column(title, width, lambda item, at: [], rank=rank, grow=grow) for title, width, rank, grow in shapes]


def test_the_least_important_columns_go_first() -> None:
    every = columns(("a", 10, 0, 0), ("b", 10, 2, 0), ("c", 10, 1, 0))
    assert [(c.title, w) for c, w in fitted(every, 32)] == [("a", 10), ("b", 10), ("c", 10)]
    assert [(c.title, w) for c, w in fitted(every, 31)] == [("a", 10), ("c", 10)]
    assert [(c.title, w) for c, w in fitted(every, 5)] == [("a", 10)]


def test_what_is_left_is_shared() -> None:
    every = columns(("a", 10, 0, 1), ("b", 10, 0, 3), ("c", 10, 0, 0))
    assert [w for _, w in fitted(every, 40)] == [12, 16, 10]


def test_what_matters_fits_into_eighty_columns_beside_a_scroll_bar() -> None:
    titles = [column.title for column, _ in fitted(worker_table.COLUMNS, 77)]
    assert titles == ["state", "worker", "KV cache", "run", "wait", "TTFT 50/99", "ITL 50/99", "tok/s", "rst"]
    titles = [column.title for column, _ in fitted(request_table.COLUMNS, 77)]
    assert titles == ["state", "request", "worker", "prompt hit", "output", "TTFT", "ITL", "time"]


@given(st.sampled_from(ALL), st.integers(58, 300))
def test_columns_never_exceed_the_width(every: tuple[Column[object], ...], width: int) -> None:
    assert sum(w + 1 for _, w in fitted(every, width)) - 1 <= width


@given(st.integers(0, 200), st.integers(0, 60))
def test_the_system_screen_gives_out_exactly_its_rows(height: int, workers: int) -> None:
    rows = share(height, workers)
    assert all(row >= 0 for row in rows)
    assert sum(rows) <= max(height, 1)
    if height >= 14 and workers:
        assert rows[1] >= 2


def test_at_80x24_two_workers_have_their_plots() -> None:
    assert share(22, 2) == (7, 3, 10, 2)
    assert share(22, 8) == (7, 7, 6, 2)


@given(st.integers(0, 60), st.integers(0, 300), st.integers(0, 80))
def test_plots_fit_and_none_is_wasted(workers: int, width: int, height: int) -> None:
    columns_, rows = PlotGrid().shape(workers, width, height)
    assert columns_ * NARROWEST <= width
    assert rows * LOWEST <= height
    assert columns_ * (rows - 1) < max(1, workers)


async def test_names_that_tell_rows_apart_are_not_cut() -> None:
    names = [f"a-longer-pool-{number}" for number in (1, 2, 10)]
    async with console(first=snapshot(workers=tuple(worker(name) for name in names))) as seen:
        for name in names:
            assert f" {name} " in seen.text
        await seen.hear(snapshot(NOW + 1, workers=(worker("b" * 40 + "-7"),)))
        assert f"{'b' * 12}…{'b' * 9}-7" in seen.text


async def test_all_that_the_filter_lets_through_is_marked_and_none_of_it_again() -> None:
    async with console(first=snapshot(workers=tuple(worker(name) for name in ("one-1", "one-2", "two-1")))) as seen:
        table = seen.app.screen.table
        await seen.type("/one")
        await seen.press("enter", "asterisk")
        assert table.marked == {"one-1", "one-2"}
        await seen.press("asterisk")
        assert table.marked == frozenset()
