"""Text that others wrote (model names, ids, prompts, log lines), made safe to print without changing what it says.

A terminal obeys control characters, and bidirectional marks reorder what stands beside them, so both are shown as the
escapes a Python string would use. Everything else stays as it is, brackets included.
"""

from __future__ import annotations

import re
import unicodedata

_KEEP = {"\u200c", "\u200d"}  # joiners: emoji and Persian fall apart without them, and they move nothing
_UNSAFE_CATEGORIES = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_SAFE_ASCII = re.compile(r"[ -~]*")


def literal(text: str, keep: str = "") -> str:
    """The text on one line with every character that could act on a terminal escaped, except those in ``keep``."""
    if _SAFE_ASCII.fullmatch(text):
        return text
    return "".join(char if char in keep or not unsafe(char) else escaped(char) for char in text)


def unsafe(char: str) -> bool:
    """Whether a terminal would act on the character, or reorder or hide others because of it."""
    return unicodedata.category(char) in _UNSAFE_CATEGORIES and char not in _KEEP


def escaped(char: str) -> str:
    code = ord(char)
    if char in "\n\r\t":
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}[char]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def width(text: str) -> int:
    """Cells that the text takes on a terminal."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def fit(text: str, cells: int) -> str:
    """The text cut to at most so many cells, with an ellipsis where something is missing."""
    if width(text) <= cells:
        return text
    if cells <= 0:
        return ""
    kept, used = [], 0
    for char in text:
        wide = width(char)
        if used + wide > cells - 1:
            break
        kept.append(char)
        used += wide
    return "".join(kept) + "…"


def pad(text: str, cells: int, *, right: bool = False) -> str:
    """The text filled up with spaces to so many cells; ``right`` puts the text at the right edge."""
    space = " " * max(0, cells - width(text))
    return space + text if right else text + space


def wrap(text: str, cells: int) -> list[str]:
    """The text in lines of at most so many cells, broken at spaces where that is possible; nothing is lost."""
    cells = max(2, cells)
    lines: list[str] = []
    while width(text) > cells:
        cut, used = 0, 0
        while cut < len(text) and used + width(text[cut]) <= cells:
            used += width(text[cut])
            cut += 1
        cut = max(1, cut)
        space = text.rfind(" ", 1, cut + 1)
        if space > 0:
            lines.append(text[:space])
            text = text[space + 1 :]
        else:
            lines.append(text[:cut])
            text = text[cut:]
    return [*lines, text]
