"""Text out of bytes: no cut of the bytes into pieces may show in what comes out."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.engine.modelless.text import TextStream, find_stop, unfinished_character


def feed(pieces: list[bytes], stops: tuple[str, ...] = ()) -> tuple[str, str | None]:
    stream = TextStream(stops)
    out = ""
    for piece in pieces:
        out += stream.push(piece, whole(piece))
        if stream.stopped is not None:
            return out, stream.stopped
    return out + stream.finish(), None


def whole(piece: bytes) -> str | None:
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return None


def read_by_character(text: str, stops: tuple[str, ...]) -> tuple[str, str | None]:
    """The reference: read on until what was read ends in a stop string; of several, the longest."""
    for end in range(1, len(text) + 1):
        ending = [stop for stop in stops if text[:end].endswith(stop)]
        if ending:
            stop = max(ending, key=len)
            return text[: end - len(stop)], stop
    return text, None


@st.composite
def cut_bytes(draw: st.DrawFn, text: st.SearchStrategy[str]) -> tuple[str, list[bytes]]:
    chosen = draw(text)
    data = chosen.encode()
    cuts = sorted(draw(st.sets(st.integers(0, len(data)))) | {0, len(data)})
    return chosen, [data[a:b] for a, b in itertools.pairwise(cuts)]


# No surrogates: text that came over HTTP as UTF-8 has none.
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
FEW_LETTERS = st.text("ab한😀", max_size=24)
STOPS = st.lists(st.text("ab한😀", min_size=1, max_size=5), min_size=1, max_size=4).map(tuple)


@given(cut_bytes(ANY_TEXT))
def test_any_cut_of_any_text_gives_the_text(case: tuple[str, list[bytes]]) -> None:
    """F1."""
    text, pieces = case
    assert feed(pieces) == (text, None)


@given(cut_bytes(FEW_LETTERS), STOPS)
def test_any_cut_stops_where_reading_by_character_stops(case: tuple[str, list[bytes]], stops: tuple[str, ...]) -> None:
    """F1 and F2."""
    text, pieces = case
    assert feed(pieces, stops) == read_by_character(text, stops)


@given(FEW_LETTERS, STOPS)
def test_a_stop_is_found_where_reading_by_character_finds_it(text: str, stops: tuple[str, ...]) -> None:
    """F2."""
    expected, stop = read_by_character(text, stops)
    assert find_stop(text, stops) == (None if stop is None else (len(expected), stop))


@given(cut_bytes(FEW_LETTERS), STOPS)
def test_what_went_out_is_never_taken_back(case: tuple[str, list[bytes]], stops: tuple[str, ...]) -> None:
    text, pieces = case
    expected, _ = read_by_character(text, stops)
    stream, out = TextStream(stops), ""
    for piece in pieces:
        out += stream.push(piece, whole(piece))
        assert expected.startswith(out)
        if stream.stopped is not None:
            break


@given(cut_bytes(ANY_TEXT), st.integers(1, 3))
def test_dangling_bytes_at_the_end_are_left_out(case: tuple[str, list[bytes]], length: int) -> None:
    text, pieces = case
    assert feed([*pieces, "😀".encode()[:length]]) == (text, None)


def test_a_split_character_waits_until_it_is_whole() -> None:
    stream = TextStream()
    assert [stream.push(piece, None) for piece in (b"\xf0\x9f", b"\x98", b"\x80\xed\x95", b"\x9c")] == [
        "",
        "",
        "😀",
        "한",
    ]


def test_a_stop_is_not_looked_for_where_it_is_not_wanted() -> None:
    stream = TextStream(("ab",))
    assert stream.push(b"xab", "xab", scan=False) == "xab"
    assert stream.push(b"ab", "ab") == ""
    assert stream.stopped == "ab"


@pytest.mark.parametrize(
    ("stops", "text", "stop"),
    [
        (("DEFGHIJ",), "", "DEFGHIJ"),
        (("DEFGHIX",), "DEFGHIJ", None),
        (("DE",), "", "DE"),
        (("HI", "GHI"), "DEF", "GHI"),
        (("J", "GH"), "DEF", "GH"),
    ],
)
def test_stops_across_pieces(stops: tuple[str, ...], text: str, stop: str | None) -> None:
    assert feed([b"DEF", b"G", b"HI", b"J"], stops) == (text, stop)


def test_bytes_that_are_no_utf8_become_replacement_characters() -> None:
    assert feed([b"a\xff", b"b"]) == ("a\ufffdb", None)


class TestPromptThatEndsInsideACharacter:
    def test_the_output_completes_it(self) -> None:
        stream = TextStream(prompt_tail=b"\xed\x95")
        assert stream.push(b"\x9c", None) == "한"

    def test_an_output_that_does_not_is_itself(self) -> None:
        stream = TextStream(prompt_tail=b"\xed\x95")
        assert stream.push(b"hi", "hi") == "hi"

    @pytest.mark.parametrize(
        ("data", "tail"),
        [
            (b"", b""),
            (b"abc", b""),
            ("한".encode(), b""),
            ("a한".encode()[:-1], b"\xed\x95"),
            ("😀".encode()[:3], b"\xf0\x9f\x98"),
            (b"\x9c\x9c", b""),
        ],
    )
    def test_its_first_bytes_are_found(self, data: bytes, tail: bytes) -> None:
        assert unfinished_character(data) == tail
