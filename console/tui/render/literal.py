"""Untrusted text for a grid of cells: what is in it shows, nothing in it acts, and every terminal agrees on its width.

``console.text`` escapes what a terminal would obey. A grid needs more: terminals disagree about the width of joined,
tinted and stacked characters, and one wrong cell shifts everything to the right of it.
"""

from __future__ import annotations

import unicodedata

from rich.cells import get_character_cell_size

from console.text import literal as escape

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_MOST_MARKS = 2
_PRESENTATION = frozenset("\ufe0e\ufe0f")
_FIRST_FLAG, _LAST_FLAG = "\U0001f1e6", "\U0001f1ff"
_FIRST_TONE, _LAST_TONE = "\U0001f3fb", "\U0001f3ff"


def literal(text: str) -> str:
    """The same text with nothing in it that a terminal would obey or measure differently. Idempotent."""
    if text.isascii() and text.isprintable():
        return text
    out: list[str] = []
    marks = _MOST_MARKS
    for char in unicodedata.normalize("NFC", escape(text)):
        if unicodedata.category(char)[0] == "M" and char not in _PRESENTATION:
            marks += 1
            if marks <= _MOST_MARKS:
                out.append(char)
            elif not out:
                out.append(REPLACEMENT)
        elif shown := _stand_in(char):
            marks = 0
            out.append(shown)
    return unicodedata.normalize("NFC", "".join(out))


def _stand_in(char: str) -> str:
    """What is drawn for one character that is no mark; empty for what only chooses a glyph's colour."""
    if char in _PRESENTATION:
        return ""
    if _FIRST_FLAG <= char <= _LAST_FLAG:
        return chr(ord(char) - ord(_FIRST_FLAG) + ord("A"))
    if _FIRST_TONE <= char <= _LAST_TONE:
        return REPLACEMENT
    if unicodedata.category(char) == "Zs":
        return " "
    return char if char.isprintable() and get_character_cell_size(char) else REPLACEMENT
