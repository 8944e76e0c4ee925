"""What is printed of a lesson: each step's words, what was measured, and how the predictions did. Lines of text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from console.plain.terminal import paint
from console.text import literal, pad, width, wrap
from lessons.answers import Score, letter
from lessons.checks import Verdict
from lessons.model import Lesson, Predict, Quiz, Step
from lessons.player import Reply, Row

ROOM = 78
_EMPHASIS = re.compile(r"(\*\*?)(?=\S)(.+?)(?<=\S)\1")
_INDENT = "   "
_MARKS = {Score.RIGHT: "✓ right", Score.CLOSE: "≈ close", Score.OFF: "✗ off", Score.UNKNOWN: "– not measured"}


def heading(lesson: Lesson, label: str) -> Iterator[str]:
    """``label`` is what the lesson runs on; it is said again at every step."""
    yield f"{lesson.number}  {paint(literal(lesson.title), 'title')}"
    yield from paragraph(f"{lesson.about} {lesson.minutes} minutes · {label} · seed {lesson.seed}")


def title(lesson: Lesson, index: int, label: str) -> str:
    step = lesson.steps[index]
    done = "▪" * (index + 1) + "▫" * (len(lesson.steps) - index - 1)
    return f"{lesson.number}.{index + 1}  {step.kind}  {done}  {paint(literal(label), 'quiet')}"


def paragraph(text: str) -> Iterator[str]:
    """Markdown, wrapped: emphasis goes without its marks, lines of code and lists keep their ends."""
    fenced = False
    pending = ""
    for line in [*text.splitlines(), ""]:
        if line.startswith("```"):
            fenced = not fenced
            continue
        starts = fenced or not line.strip() or line.startswith(("- ", "    ", "|"))
        if starts and pending:
            yield from _wrapped(pending)
            pending = ""
        if fenced or line.startswith(("    ", "|")):
            yield f"{_INDENT}{literal(line)}".rstrip()
        else:
            plain = _EMPHASIS.sub(r"\2", line.strip())
            pending = f"{pending} {plain}".strip()


def _wrapped(text: str) -> Iterator[str]:
    more = "  " if text.startswith("- ") else ""
    first, *rest = wrap(literal(text), ROOM - len(_INDENT) - len(more))
    yield f"{_INDENT}{first}"
    yield from (f"{_INDENT}{more}{line}" for line in rest)


_COMMAND = re.compile(r"\binferdeck ([a-z]+)")


def commands_in(*texts: str) -> set[str]:
    """The first words of the commands in them that a learner may type."""
    return {found for text in texts for found in _COMMAND.findall(text)}


def question(step: Step) -> Iterator[str]:
    """The answers to choose from."""
    if isinstance(step, Predict | Quiz):
        for index, option in enumerate(step.options):
            yield from _wrapped(f"{letter(index)}) {option.text}")


def outcome_lines(reply: Reply) -> Iterator[str]:
    """A measured table, predictions beside it, and what was checked."""
    yield from _rows(reply.rows)
    for predict, told in reply.outcomes:
        right = f" · measured: {literal(told.right)}" if told.right else ""
        style = "good" if told.score in (Score.RIGHT, Score.CLOSE) else "watch"
        words = f"{_MARKS[told.score]}: predicted {told.predicted}{right}"
        yield from (paint(line, style) for line in _wrapped(words))
        yield from paragraph(predict.words.answer)
    for verdict in reply.verdicts:
        yield verdict_line(verdict)
    yield from (f"{_INDENT}{line}" for line in reply.view)


def _rows(rows: Sequence[Row]) -> Iterator[str]:
    room = max((width(row.label) for row in rows), default=0)
    values = max((width(row.text) for row in rows), default=0)
    for row in rows:
        yield f"{_INDENT}{pad(literal(row.label), room)}  {pad(literal(row.text), values, right=True)}"


def verdict_line(verdict: Verdict) -> str:
    if verdict.holds:
        return _INDENT + paint(f"✓ {literal(verdict.says)}", "good")
    return _INDENT + paint(f"✗ {literal(verdict.says)}: {literal(verdict.reason)}", "bad")
