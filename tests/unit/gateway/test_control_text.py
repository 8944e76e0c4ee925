from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.contracts.errors import InvalidRequest
from control_plane.gateway.prompt import control_text
from control_plane.gateway.prompt.control_text import ControlText, choose_nonce, secret_name

NONCE = "\U000f0000"


def test_the_longest_control_string_at_a_place_is_found() -> None:
    control = ControlText(["<a>", "<a>b", "<", "[X]"])
    assert control.split("1<a>b2<a>3[X]<") == [("1", "<a>b"), ("2", "<a>"), ("3", "[X]"), ("", "<"), ("", "")]


@given(
    st.sets(st.text("ab<>", min_size=1, max_size=4), min_size=1, max_size=6),
    st.text("ab<>", max_size=12),
)
def test_finding_agrees_with_a_plain_search(strings: set[str], text: str) -> None:
    expected, start, at = [], 0, 0
    while at < len(text):
        found = max((word for word in strings if text.startswith(word, at)), key=len, default="")
        if found:
            expected.append((text[start:at], found))
            at = start = at + len(found)
        else:
            at += 1
    expected.append((text[start:], ""))
    assert ControlText(strings).split(text) == expected


@given(
    st.sets(st.text("ab<>", min_size=2, max_size=4), min_size=1, max_size=6),
    st.text("ab<>", min_size=1, max_size=6),
    st.text("ab<>", max_size=4),
    st.text("ab<>", max_size=4),
)
def test_guarded_text_takes_part_in_no_control_string_whatever_stands_beside_it(
    strings: set[str], text: str, before: str, after: str
) -> None:
    control = ControlText(strings)
    guarded = control.guard(text, NONCE)
    assert guarded.replace(NONCE, "") == text
    at = 0
    for plain, word in control.split(before + guarded + after):
        at += len(plain)
        assert at + len(word) <= len(before) or at >= len(before) + len(guarded)
        at += len(word)


@given(st.sets(st.text("ab<>", min_size=1, max_size=4), min_size=1, max_size=5), st.text("ab<>", max_size=5), st.data())
def test_harmless_text_is_really_harmless(strings: set[str], text: str, data: st.DataObject) -> None:
    control = ControlText(strings)
    if not text or control.hazardous(text):
        return
    before, after = data.draw(st.text("ab<>", max_size=4)), data.draw(st.text("ab<>", max_size=4))
    for word in strings:
        whole = before + text + after
        at = whole.find(word)
        while at >= 0:
            overlaps = at < len(before) + len(text) and at + len(word) > len(before)
            assert not overlaps
            at = whole.find(word, at + 1)


def test_text_is_broken_only_where_it_must_be() -> None:
    control = ControlText(["<|im_end|>"])
    assert control.guard("plain", NONCE) == "plain"
    assert control.guard("x<|im_end|>y", NONCE) == f"x<{NONCE}|im_end|>y"
    assert control.guard("x<|im", NONCE) == f"x<|im{NONCE}"
    assert control.guard("end|>x", NONCE) == f"{NONCE}end|>x"
    assert not control.hazardous("a < b, c > d")


def test_a_control_string_of_one_character_cannot_be_said() -> None:
    control = ControlText(["§"])
    assert control.hazardous("a§b")
    with pytest.raises(InvalidRequest):
        control.guard("a§b", NONCE)


def test_no_control_strings_at_all() -> None:
    control = ControlText([])
    assert control.split("abc") == [("abc", "")]
    assert not control.hazardous("abc")
    assert control.guard("abc", NONCE) == "abc"


def test_a_nonce_is_in_none_of_the_texts() -> None:
    texts = ["".join(map(chr, range(0xF0000, 0xF4000)))]
    assert choose_nonce(texts) not in texts[0]
    with pytest.raises(InvalidRequest):
        choose_nonce(["".join(map(chr, range(0xF0000, 0x100000)))])


def test_secret_names_differ() -> None:
    assert len({secret_name() for _ in range(100)}) == 100


@given(
    st.sets(st.text("ab<>", min_size=1, max_size=4), min_size=1, max_size=6),
    st.text("ab<>", max_size=30),
    st.integers(1, 6),
)
def test_a_long_text_is_searched_in_parts_and_nothing_is_missed(strings: set[str], text: str, window: int) -> None:
    control = ControlText(strings)
    whole = control.split(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(control_text, "_WINDOW", window)
        assert control.split(text) == whole
