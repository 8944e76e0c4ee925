"""A line to type in, with a cursor that stands still: a blinking one repaints all day."""

from __future__ import annotations

from textual.reactive import reactive
from textual.widgets import Input


class Entry(Input):
    cursor_blink = reactive(False, init=False)
