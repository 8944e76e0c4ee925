"""A little Markdown as coloured lines: paragraphs, lists, emphasis, code. Everything else is text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.cells import cell_len, chop_cells
from rich.style import Style

from console.tui.render.look import Look
from console.tui.render.spans import Span, width_of, wrapped

_INLINE = re.compile(r"(\*\*(?=\S).+?(?<=\S)\*\*|\*(?=\S)[^*]+?(?<=\S)\*|`[^`]+`)")
_JOINT = re.compile(r"(?<=[=/,])")
_ITEM = "- "

Word = list[Span]


def markdown(text: str, width: int, look: Look) -> list[list[Span]]:
    """The text in lines of at most ``width`` cells. Lines of code and tables keep their ends."""
    lines: list[list[Span]] = []
    fenced = False
    pending = ""

    def close() -> None:
        nonlocal pending
        if pending:
            item = pending.startswith(_ITEM)
            body = pending.removeprefix(_ITEM) if item else pending
            lead: Span = (f"{look.glyphs.dot} ", look.palette.accent)
            lines.extend(flow(body, width, look, lead=lead if item else None))
        pending = ""

    for line in text.splitlines():
        if line.startswith("```"):
            close()
            fenced = not fenced
        elif fenced or line.startswith(("    ", "|")):
            close()
            lines.extend([(part, look.palette.series)] for part in _code(line, width))
        elif not line.strip():
            close()
            if lines and lines[-1]:
                lines.append([])
        elif line.startswith(_ITEM):
            close()
            pending = line
        else:
            pending = f"{pending} {line.strip()}".strip()
    close()
    return lines


def _code(line: str, width: int) -> list[str]:
    """A line of code; one that is too long goes on below, parted at its spaces and as far in."""
    if cell_len(line) <= width:
        return [line]
    code = line.lstrip(" ")
    indent = " " * min(len(line) - len(code), width // 2)
    return [indent + part for part in wrapped(code, width - len(indent))]


def flow(
    text: str, width: int, look: Look, *, lead: Span | None = None, style: Style | None = None
) -> list[list[Span]]:
    """One paragraph. ``lead`` stands before its first line, and the others are as far in. ``style`` is that of text
    without emphasis."""
    before = width_of([lead]) if lead is not None else 0
    room = max(2, width - before)
    lines: list[list[Span]] = [[]]
    used = 0
    for word in _words(text, style or look.palette.text, look):
        for piece in _pieces(word, room):
            cells = width_of(piece)
            if lines[-1] and used + 1 + cells > room:
                lines.append([])
                used = 0
            if lines[-1]:
                lines[-1].append((" ", piece[0][1]))
                used += 1
            lines[-1] += piece
            used += cells
    if lead is not None:
        pad: Span = (" " * before, lead[1])
        return [[lead if index == 0 else pad, *line] for index, line in enumerate(lines)]
    return lines


def _words(text: str, style: Style, look: Look) -> Iterator[Word]:
    """What may not be parted: pieces of different style that no space stands between."""
    word: Word = []
    for piece, kind in _inline(text, style, look):
        first, *rest = piece.split(" ")
        if first:
            word.append((first, kind))
        for part in rest:
            if word:
                yield word
            word = [(part, kind)] if part else []
    if word:
        yield word


def _inline(text: str, style: Style, look: Look) -> Iterator[Span]:
    palette = look.palette
    for part in _INLINE.split(text):
        if part.startswith("**") and part.endswith("**") and len(part) > 4:
            yield part[2:-2], palette.title
        elif part.startswith("`") and part.endswith("`") and len(part) > 2:
            yield part[1:-1], palette.series
        elif part.startswith("*") and part.endswith("*") and len(part) > 2:
            yield part[1:-1], style + Style(italic=True)
        elif part:
            yield part, style


def _pieces(word: Word, room: int) -> Iterator[Word]:
    """A word that is longer than a line is cut."""
    if width_of(word) <= room:
        yield word
        return
    for text, style in word:
        yield from ([(piece, style)] for piece in _parts(text, room))


def _parts(text: str, room: int) -> Iterator[str]:
    """Parted behind what joins names, where there is that."""
    part = ""
    for name in _JOINT.split(text):
        if part and cell_len(part + name) > room:
            yield part
            part = ""
        part += name
        if cell_len(part) > room:
            *whole, part = chop_cells(part, room)
            yield from whole
    if part:
        yield part
