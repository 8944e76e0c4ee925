from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from console.plain.table import Column, table
from console.text import width

Row = tuple[str, str, str]
COLUMNS: list[Column[Row]] = [
    Column("NAME", lambda row: row[0], keep=9),
    Column("NUMBER", lambda row: row[1], right=True, keep=7),
    Column("NOTE", lambda row: row[2], keep=1),
]


def test_columns_are_aligned_and_nothing_is_cut_without_a_width() -> None:
    made = table([("a", "1", "x" * 200), ("longer", "22", "")], COLUMNS)
    assert made.lines == ["NAME    NUMBER  NOTE", f"a            1  {'x' * 200}", "longer      22"]
    assert made.dropped == 0


def test_wide_characters_take_two_cells() -> None:
    made = table([("日本", "1", "n"), ("abcd", "2", "m")], COLUMNS)
    assert [width(line.split("1" if "1" in line else "2")[0]) for line in made.lines[1:]] == [11, 11]


def test_the_widest_column_shrinks_before_one_goes() -> None:
    made = table([("worker-one", "1", "because of this and that")], COLUMNS, 34)
    assert made.dropped == 0
    assert made.lines[1].startswith("worker-one       1  because of t")
    assert made.lines[1].endswith("…")


def test_the_least_important_column_goes_first_and_is_counted() -> None:
    made = table([("worker-one", "1234567890", "note")], COLUMNS, 20)
    assert (made.lines[0].split(), made.dropped) == (["NAME", "NUMBER"], 1)


def test_control_characters_do_not_reach_the_table() -> None:
    assert "\x1b" not in "".join(table([("\x1b[2J", "\n", "\u202e")], COLUMNS).lines)


@given(
    st.lists(st.tuples(st.text(max_size=40), st.text(max_size=40), st.text(max_size=40)), max_size=4),
    st.integers(1, 120),
)
def test_no_line_is_wider_than_the_terminal(rows: list[Row], room: int) -> None:
    assert all(width(line) <= room for line in table(rows, COLUMNS, room).lines)
