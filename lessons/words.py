"""A lesson's Markdown, cut into the words of each step.

::

    # step-id
    One idea.
    ---
    The next idea, on a screen of its own.
    ## hint
    A gentle one; more of them may follow.
    ## answer
    What is right, and why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from control_plane.contracts.toml_places import Place
from lessons.model import Words

ROOM = 480
"""Characters of a screen's words: one idea, read at a glance beside a live view."""

_PARTS = ("hint", "answer")

Blame = Callable[[Place, str], None]


@dataclass(slots=True)
class Section:
    """The words of a step, and where each part of them begins."""

    place: Place
    pages: list[str] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
    answer: str = ""

    def words(self) -> Words:
        return Words(tuple(self.pages), tuple(self.hints), self.answer)


def sections(text: str, blame: Blame) -> Mapping[str, Section]:
    """Step id → its words. ``blame`` is told what is wrong, by place."""
    found: dict[str, Section] = {}
    current: Section | None = None
    part = ""
    lines: list[str] = []
    begin = 1

    def close(before: int) -> None:
        words = "\n".join(lines).strip()
        lines.clear()
        if current is None:
            if words:
                blame(Place(begin, 1), "words before the first # step")
            return
        place = Place(before, 1)
        if not words:
            blame(place, f"## {part} is empty" if part else "a screen without words")
        elif len(words) > ROOM:
            blame(place, f"{len(words)} characters on one screen, at most {ROOM}: part them with ---")
        if part == "answer":
            current.answer = words
        else:
            (current.hints if part == "hint" else current.pages).append(words)

    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        fenced ^= line.startswith("```")
        if fenced or not (line.startswith(("# ", "## ")) or line.rstrip() == "---"):
            lines.append(line)
            continue
        close(begin)
        begin = number
        if line.startswith("# "):
            name, part = line[2:].strip(), ""
            current = Section(Place(number, 1))
            if name in found:
                blame(Place(number, 3), f"# {name} is there twice (also in line {found[name].place.line})")
            found[name] = current
        elif line.startswith("## "):
            part = line[3:].strip().lower()
            if part not in _PARTS:
                blame(Place(number, 4), f"unknown part {part!r}; there are ## hint and ## answer")
    close(begin)
    return found
