"""What is wrong with a TOML text is one error, and says where."""

from __future__ import annotations

import pytest

from control_plane.contracts.toml_places import Place
from control_plane.contracts.toml_text import TomlWrong, read_toml


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ("a = 1\nb == 2\n", Place(2, 4), "invalid value"),
        ("a = 1\na = 2", Place(2, 6), "cannot overwrite a value"),
        ("a = 1\nb = [\n" + "[" * 4000 + "]" * 4000 + "\n]\nc = 2\n", Place(3, 1), "it is nested too deeply"),
        (f"a = 1\n\nb = {'1' * 5000}\nc = 2\n", Place(3, 1), "it holds a number with too many digits"),
        ("[", Place(1, 2), "invalid"),
    ],
)
def test_what_is_wrong_has_a_place(text: str, place: Place, what: str) -> None:
    with pytest.raises(TomlWrong) as caught:
        read_toml(text)
    assert caught.value.place == place
    assert caught.value.what.startswith(what)
    assert str(caught.value).startswith(f"line {place.line}: ")


def test_a_byte_order_mark_counts_for_nothing() -> None:
    tree, places = read_toml("\ufeffa = 1\n")
    assert tree == {"a": 1}
    assert places[("a",)] == Place(1, 1)
