from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from console.tui.render.literal import literal


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("smollm2-1", "smollm2-1"),
        ("[bold]x[/bold] [/ [link=x]y[/link]", "[bold]x[/bold] [/ [link=x]y[/link]"),
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("tab\tnew\nline\r", "tab\\tnew\\nline\\r"),
        ("\x9b2J", "\\x9b2J"),
        ("left\u202eright", "left\\u202eright"),
        ("日本語", "日本語"),
        ("e\u0301", "é"),
        ("z\u0300\u0301\u0302\u0303", "z\u0300\u0301"),
        ("\u0301x", "\ufffdx"),
        ("☺\ufe0f", "☺"),
        ("👨\u200d👩", "👨\ufffd👩"),
        ("👍🏽", "👍\ufffd"),
        ("🇩🇪", "DE"),
        ("a\u00a0b", "a b"),
        ("\u3164", "\ufffd"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_is_drawn(text: str, shown: str) -> None:
    assert literal(text) == shown


@given(st.text(max_size=60))
def test_nothing_in_it_acts_and_its_width_is_the_sum_of_its_characters(text: str) -> None:
    shown = literal(text)
    assert all(char.isprintable() for char in shown)
    assert cell_len(shown) == sum(cell_len(char) for char in shown)
    assert literal(shown) == shown


@given(st.text(alphabet=st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=40))
def test_printable_ascii_is_left_alone(text: str) -> None:
    assert literal(text) is text
