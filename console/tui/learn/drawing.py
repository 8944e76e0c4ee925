"""A lesson's words, questions and results as coloured lines. Pure: no line is wider than ``width`` cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.style import Style

from console.tui.learn.draft import Draft
from console.tui.render.look import Look
from console.tui.render.markdown import flow, markdown
from console.tui.render.spans import Span, Spans, fit, width_of
from lessons.answers import Outcome, Score, letter
from lessons.checks import Verdict
from lessons.model import Lesson, Predict
from lessons.player import Row
from lessons.progress import LessonRecord, State

Line = list[Span]
Told = Sequence[tuple[Predict, Outcome]]

_PREDICTED, _MEASURED = "you", "measured"
_GAP = 2


def dots(lesson: Lesson, record: LessonRecord, index: int, look: Look) -> Line:
    """One for each step: passed, skipped, here, open. Each has its own shape."""
    palette, plain = look.palette, look.plain
    faces = {
        State.DONE: ("#" if plain else "▪", palette.good),
        State.SKIPPED: ("-" if plain else "▫", palette.watch),
        State.OPEN: ("." if plain else "·", palette.faint),
    }
    line: Line = []
    for number, step in enumerate(lesson.steps):
        known = record.steps.get(step.id)
        text, style = faces[known.state if known is not None else State.OPEN]
        line.append((look.glyphs.crumb, palette.key) if number == index else (text, style))
    return line


def choices(draft: Draft, width: int, look: Look) -> list[Line]:
    """The options by letter, the chosen one marked."""
    palette = look.palette
    lines: list[Line] = []
    for index, text in enumerate(draft.options):
        chosen = index == draft.chosen
        mark = look.glyphs.arrow if chosen else " "
        lead: Span = (f"{mark} {letter(index)}) ", palette.key)
        lines += flow(text, width, look, lead=lead, style=palette.title if chosen else palette.text)
    return lines


def entry(draft: Draft, unit: str, look: Look, *, open_: bool) -> Line:
    """The line in which a number is typed."""
    palette = look.palette
    cursor: Span = (" ", palette.cursor) if open_ else ("", palette.text)
    unit = "" if draft.has_unit else f" {unit}".rstrip()
    return [("> ", palette.key), (draft.typed, palette.title), cursor, (unit, palette.dim)]


def commands(told: Iterable[str], width: int, look: Look) -> list[Line]:
    """What a step does, as it would be typed or said."""
    palette = look.palette
    return [line for each in told for line in flow(each, width, look, lead=("$ ", palette.faint), style=palette.series)]


def results(rows: Sequence[Row], told: Told, width: int, look: Look) -> list[Line]:
    """What was measured, each value that was predicted with the prediction before it."""
    palette = look.palette
    said = {predict.value: (_short(predict, outcome), _face(outcome.score, look)) for predict, outcome in told}
    last = max([len(_MEASURED), *(width_of([(row.text, palette.text)]) for row in rows)])
    most = max(len(_PREDICTED), width // 3)
    said = {name: (_number(text, most), face) for name, (text, face) in said.items()}
    before = max([len(_PREDICTED), *(width_of([(text, palette.text)]) for text, _ in said.values())]) if said else 0
    before = min(before, most)
    room = max(6, width - last - _GAP - (before + _GAP if before else 0))
    head: Line = fit([("", palette.dim)], room)
    lines = [_row(head, (_PREDICTED, palette.dim) if before else None, (_MEASURED, palette.dim), before, last)]
    for row in rows:
        text, (_, style) = said.get(row.name, ("", ("", palette.text)))
        predicted = row.name in said
        labels = flow(row.label, room, look, style=palette.title if predicted else palette.text)
        value: Span = (row.text, style if predicted else palette.title)
        first = fit(labels[0], room)
        lines.append(_row(first, (text, style) if before else None, value, before, last))
        lines += labels[1:]
    return lines


def _row(label: Line, said: Span | None, value: Span, before: int, last: int) -> Line:
    gap: Span = (" " * _GAP, value[1])
    middle = [gap, *fit([said], before, right=True)] if said is not None else []
    return [*label, *middle, gap, *fit([value], last, right=True)]


def _short(predict: Predict, outcome: Outcome) -> str:
    """Of a choice its letter: what it says stands below."""
    text = outcome.predicted
    return text.partition(")")[0] if predict.asks == "choice" and ")" in text else text


def _number(text: str, room: int) -> str:
    """What was predicted; where it is too long, without its unit, which the measured value has."""
    return text if width_of([(text, Style.null())]) <= room else text.partition(" ")[0]


def scores(told: Told, width: int, look: Look) -> list[Line]:
    """How each prediction did, and what would have been right."""
    lines: list[Line] = []
    for predict, outcome in told:
        glyph, style = _face(outcome.score, look)
        words = _SCORES[outcome.score]
        if predict.asks == "choice" and outcome.right:
            words += f": {outcome.right}" if outcome.score is Score.RIGHT else f", it is {outcome.right}"
        elif outcome.right and outcome.score is not Score.RIGHT:
            words += f": you said {outcome.predicted}, it is {outcome.right}"
        lines += flow(words, width, look, lead=(f"{glyph} ", style), style=style)
    return lines


_SCORES = {Score.RIGHT: "right", Score.CLOSE: "close", Score.OFF: "not so", Score.UNKNOWN: "not measured"}


def _face(score: Score, look: Look) -> tuple[str, Style]:
    palette, glyphs = look.palette, look.glyphs
    return {
        Score.RIGHT: (glyphs.done, palette.good),
        Score.CLOSE: ("~" if look.plain else "≈", palette.good),
        Score.OFF: (glyphs.failed, palette.watch),
        Score.UNKNOWN: (glyphs.lost, palette.unknown),
    }[score]


def verdicts(judged: Sequence[Verdict], width: int, look: Look) -> list[Line]:
    """What was checked: what holds in a word, what does not with its reason."""
    palette, glyphs = look.palette, look.glyphs
    lines: list[Line] = []
    for each in judged:
        if each.holds:
            lines += flow(each.says, width, look, lead=(f"{glyphs.done} ", palette.good), style=palette.good)
        else:
            words = f"{each.says}: {each.reason}"
            lines += flow(words, width, look, lead=(f"{glyphs.failed} ", palette.bad), style=palette.bad)
    return lines


def hints(shown: Sequence[str], width: int, look: Look) -> list[Line]:
    """Each hangs behind its mark; with a word that is too long for that, below it."""
    lead: Span = ("hint ", look.palette.watch)
    before = width_of([lead])
    lines: list[Line] = []
    for text in shown:
        room = width - before
        if any(cell_len(word.strip("`*")) > room for word in text.split()):
            lines += [[lead], *markdown(text, width, look)]
            continue
        first, *more = markdown(text, room, look)
        lines += [[lead, *first], *([(" " * before, lead[1]), *line] for line in more)]
    return lines


def prompt(keys: Sequence[tuple[str, str]], width: int, look: Look) -> list[Line]:
    """What can be pressed now, in a few words; at most two lines."""
    palette = look.palette
    lines: list[Line] = [[]]
    for key, word in keys:
        piece: Line = [(f"[{key}]", palette.key), (f" {word}", palette.dim)]
        if lines[-1] and width_of(lines[-1]) + 3 + width_of(piece) > width:
            lines.append([])
        lines[-1] += [("   ", palette.dim), *piece] if lines[-1] else piece
    return lines[:2]


def apart_lines(*groups: Sequence[Spans]) -> list[Line]:
    """The groups with an empty line between them; empty groups leave none."""
    lines: list[Line] = []
    for group in groups:
        if group:
            lines += [[], *map(list, group)] if lines else map(list, group)
    return lines
