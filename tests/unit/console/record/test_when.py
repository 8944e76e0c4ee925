"""Places in a recording, as people type them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from console.record.when import when
from control_plane.contracts.errors import InvalidRequest

FIRST = 1_700_000_000.0  # 22:13:20 UTC
LAST = FIRST + 4 * 3600  # past midnight


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("word", "after"),
    [
        ("start", 0.0),
        ("end", 14_400.0),
        ("50%", 7_200.0),
        ("250%", 14_400.0),
        ("90s", 90.0),
        ("90", 90.0),
        ("1.5m", 90.0),
        ("1h", 3600.0),
        ("+10", 1010.0),
        (" +2m ", 1120.0),
        ("-30s", 970.0),
        ("22:13:20", 0.0),
        ("22:14", 1334.0),
        ("0:07", 7.0),
        ("1m40s", 100.0),
        ("+1h30m", 6400.0),
        ("0:13:20", 7200.0),
        ("22:13:19", 86_399.0),
    ],
)
def test_words(word: str, after: float) -> None:
    assert when(word, FIRST + 1000, FIRST, LAST) == FIRST + after


@pytest.mark.parametrize(
    "word", ["", "soon", "25:00:00", "12:61", "12:00:61", "+", "s", "--5", "5d", "1e9", "nan", "٣s%", "\x1b[31m"]
)
def test_anything_else_is_told(word: str) -> None:
    with pytest.raises(InvalidRequest, match="try \\+30s"):
        when(word, FIRST, FIRST, LAST)
