from __future__ import annotations

import json
import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from control_plane.contracts.toml_places import KeyPath, Place, key_places, place_of

TEXT = '''top = """
[not.a.header]
x = 1
"""
"a = b" = 1
list = [ # [
  "]", 2,
  {k = [{}]},
]
[one.two]
  k.l = {m = 1, "n" = 'it # s'}
[[arr]]
n = 1979-05-27 07:32:00
[arr.sub]
o = 2
[[ arr ]]
n = 3
'''


def test_keys_are_found_through_strings_arrays_and_nested_tables() -> None:
    assert {path: (place.line, place.column) for path, place in key_places(TEXT).items()} == {
        ("top",): (1, 1),
        ("a = b",): (5, 1),
        ("list",): (6, 1),
        ("list", 0): (7, 3),
        ("list", 1): (7, 8),
        ("list", 2): (8, 3),
        ("list", 2, "k"): (8, 4),
        ("list", 2, "k", 0): (8, 9),
        ("one", "two"): (10, 2),
        ("one", "two", "k"): (11, 3),
        ("one", "two", "k", "l"): (11, 3),
        ("one", "two", "k", "l", "m"): (11, 10),
        ("one", "two", "k", "l", "n"): (11, 17),
        ("arr",): (12, 3),
        ("arr", 0): (12, 3),
        ("arr", 0, "n"): (13, 1),
        ("arr", 0, "sub"): (14, 2),
        ("arr", 0, "sub", "o"): (15, 1),
        ("arr", 1): (16, 4),
        ("arr", 1, "n"): (17, 1),
    }


def test_what_has_no_place_of_its_own_has_that_of_what_is_around_it() -> None:
    places = key_places(TEXT)
    assert place_of(places, ("arr", 1, "missing")) == Place(16, 4)
    assert place_of(places, ("nowhere",)) == Place(1, 1)


LEAVES = st.one_of(
    st.integers(-(2**40), 2**40),
    st.booleans(),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8),
    st.sampled_from(["[", "]", "{", "}", "#", "=", '"', "'", "\n", ","]),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text("ab=#[ ", max_size=3), inner)),
    max_leaves=12,
)


def written(value: Any, gap: str) -> str:
    """As TOML on one line, with ``gap`` inside arrays."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{quoted(key)} = {written(each, gap)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + f",{gap}".join(written(each, gap) for each in value) + "]"
    return quoted(value) if isinstance(value, str) else json.dumps(value)


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def paths(value: Any, path: KeyPath = ()) -> set[KeyPath]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return {path} - {()} | {each for key, inner in items for each in paths(inner, (*path, key))}


@given(st.dictionaries(st.text("abc-_", min_size=1, max_size=3), VALUES, max_size=5), st.sampled_from([" ", "\n  "]))
def test_every_key_and_element_has_its_place(document: dict[str, Any], gap: str) -> None:
    text = "".join(f"{key} = {written(value, gap)}  # ] }} = [\n" for key, value in document.items())
    assert tomllib.loads(text) == document
    places = key_places(text)
    assert set(places) == paths(document)
    lines = text.split("\n")
    for path, place in places.items():
        here = lines[place.line - 1][place.column - 1 :]
        last = path[-1]
        if isinstance(last, str):
            assert here.startswith((f"{last} =", f"{quoted(last)} ="))
