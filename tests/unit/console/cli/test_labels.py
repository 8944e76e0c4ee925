"""Labelled lines: a label never runs into its text, however long it is."""

from __future__ import annotations

import pytest

from console.cli.commands.describe import _write


@pytest.mark.parametrize("room", [None, 60])
def test_a_label_as_wide_as_the_column_still_stands_apart(room: int | None, capsys: pytest.CaptureFixture[str]) -> None:
    _write([("conversation", "conv_1"), ("size", "2 items"), "", "items:"], room)
    assert capsys.readouterr().out == "conversation conv_1\nsize         2 items\n\nitems:\n"
    _write([("key", "key-1"), ("size", "2")], room)
    assert capsys.readouterr().out == "key         key-1\nsize        2\n"
