from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.text import fit, literal, pad, width, wrap

ANYTHING = st.text(st.characters(exclude_categories=()), max_size=60)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain [b]markup[/b] {x}", "plain [b]markup[/b] {x}"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\u2028", "\\u2028"),
        ("\udc80", "\\udc80"),
        ("\U000e0041", "\\U000e0041"),
        ("日本語 👩‍🚀 é", "日本語 👩‍🚀 é"),
    ],
)
def test_what_a_terminal_would_obey_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert literal(text) == shown


def test_kept_characters_stay() -> None:
    assert literal("a\nb\x1b", keep="\n") == "a\nb\\x1b"


@given(ANYTHING)
def test_no_control_or_format_character_survives(text: str) -> None:
    left = {unicodedata.category(char) for char in literal(text) if char not in "\u200c\u200d"}
    assert not left & {"Cc", "Cf", "Cs", "Zl", "Zp"}


@given(ANYTHING, st.integers(0, 40))
def test_fit_never_exceeds_its_cells(text: str, cells: int) -> None:
    assert width(fit(literal(text), cells)) <= cells


@given(ANYTHING, st.integers(2, 40))
def test_wrap_keeps_every_character_but_the_spaces_it_breaks_at(text: str, cells: int) -> None:
    shown = literal(text)
    lines = wrap(shown, cells)
    assert all(width(line) <= cells for line in lines)
    assert "".join(lines).replace(" ", "") == shown.replace(" ", "")


def test_padding_counts_cells_not_characters() -> None:
    assert pad("日本", 6) == "日本  "
    assert pad("12", 4, right=True) == "  12"
