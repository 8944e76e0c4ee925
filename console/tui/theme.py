"""The colours of what Textual draws itself: backgrounds, input lines, scroll bars."""

from __future__ import annotations

from textual.theme import Theme

THEME = Theme(
    name="inferdeck",
    primary="#58a6ff",
    secondary="#39c5cf",
    warning="#e3b341",
    error="#ff6b63",
    success="#3fb950",
    accent="#58a6ff",
    foreground="#c9d1d9",
    background="#0d1117",
    surface="#151b23",
    panel="#161c25",
    dark=True,
)
