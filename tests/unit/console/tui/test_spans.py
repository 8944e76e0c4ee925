from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style

from console.tui.render.spans import apart, fit, middle, strip, width_of, wrapped

PLAIN, RED = Style.null(), Style(color="red")
texts = st.text(max_size=30)
spans = st.lists(st.tuples(texts, st.sampled_from([PLAIN, RED])), max_size=5)


def shown(line: list[tuple[str, Style]]) -> str:
    return "".join(text for text, _ in line)


def test_fit_pads_and_cuts() -> None:
    assert shown(fit([("ab", PLAIN), ("cd", RED)], 6)) == "abcd  "
    assert shown(fit([("12", PLAIN)], 4, right=True)) == "  12"
    assert shown(fit([("abcdef", PLAIN)], 4)) == "abc…"
    assert shown(fit([("日本語", PLAIN)], 4)) == "日 …"
    assert fit([("abc", PLAIN)], 0) == []


def test_apart_keeps_the_right_end_whole() -> None:
    assert shown(apart([("left side", PLAIN)], [("right", PLAIN)], 10)) == "left…right"
    assert shown(apart([("left", PLAIN)], [("right side", PLAIN)], 5)) == "righ…"


@given(spans, st.integers(0, 40), st.booleans())
def test_fit_is_exactly_as_wide_as_asked(line: list[tuple[str, Style]], width: int, right: bool) -> None:
    assert width_of(fit(line, width, right=right)) == width


@given(spans, st.integers(0, 40))
def test_a_strip_holds_nothing_that_acts(line: list[tuple[str, Style]], width: int) -> None:
    drawn = strip(line, width, PLAIN)
    assert drawn.cell_length == sum(segment.cell_length for segment in drawn) == width
    assert all(char.isprintable() for char in drawn.text)


@given(st.text(max_size=80), st.integers(2, 30))
def test_wrapped_lines_fit_and_lose_nothing_but_spaces(text: str, width: int) -> None:
    lines = wrapped(text, width)
    assert lines
    assert all(width_of([(line, PLAIN)]) <= width for line in lines)
    from console.tui.render.literal import literal

    assert "".join(lines).replace(" ", "") == literal(text).replace(" ", "")


@given(st.text(max_size=40), st.integers(3, 30))
def test_the_middle_goes_where_a_name_is_too_long(text: str, width: int) -> None:
    assert width_of([(middle(text, width), PLAIN)]) <= width


def test_the_end_of_a_long_name_is_kept() -> None:
    assert middle("a-very-long-pool-name-12", 12) == "a-very…me-12"
    assert middle("short-1", 12) == "short-1"
    assert middle("00\u2f00", 3) == "00…"


def test_wrapped_breaks_at_spaces() -> None:
    assert wrapped("one two three", 7) == ["one two", "three"]
    assert wrapped("", 7) == [""]
    assert wrapped("abcdefghij", 4) == ["abcd", "efgh", "ij"]
