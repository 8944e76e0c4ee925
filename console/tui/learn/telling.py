"""The words' side of a lesson, from where its learner stands: lines, and what can be pressed. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len

from console.learn.screen import commands_in
from console.tui.learn.drawing import (
    Line,
    apart_lines,
    choices,
    commands,
    dots,
    entry,
    hints,
    results,
    scores,
    verdicts,
)
from console.tui.learn.sheets import Kind
from console.tui.learn.standing import Standing
from console.tui.order import Verb
from console.tui.render.figures import age
from console.tui.render.look import Look
from console.tui.render.markdown import flow, markdown
from console.tui.render.spans import Span, width_of
from lessons.actions import Inject
from lessons.answers import letter
from lessons.model import Check, Do, Observe, Predict, Quiz
from lessons.player import gives_away, unmet
from lessons.progress import State

Keys = Sequence[tuple[str, str]]

VIEW_KEYS: Final = (("Tab", "words"), ("Space *", "mark"), ("Enter", "open"), ("a", "running only"))
_WORDS_KEYS: Final = (
    ("→ ←", "on, back"),
    ("h", "hint"),
    ("s", "skip"),
    ("r", "reset"),
    ("Tab", "live view"),
    ("Esc", "leave"),
)
"""For the line at the bottom."""

_CODE = re.compile(r"`([^`]+)`")
_DOES = {"do": "do it", "observe": "run it", "check": "look whether it is done"}


def words_keys(standing: Standing) -> Keys:
    """For the line at the bottom: with a number typed, letters are of its unit."""
    draft = standing.draft
    typing = draft is not None and draft.typed and standing.answers
    return [(key, word) for key, word in _WORDS_KEYS if not (typing and key in ("s", "r"))]


def columns(standing: Standing, room: int) -> int:
    """Of the words, with the space around them, where the live view stands beside them: no name in a command that is
    to be typed is parted as long as half of the room is enough."""
    across = max(42, min(72, room * 2 // 5 + 3))
    texts = (standing.shown.words, *standing.player.hints_shown()) if standing.started else ()
    names = [cell_len(name) for text in texts for code in _CODE.findall(text) for name in code.split()]
    return max(across, min(max(names, default=0) + 3, room // 2))


def place(standing: Standing, look: Look) -> Line:
    """In the lesson: its steps, this one, and the screen of it."""
    player, palette = standing.player, look.palette
    line: Line = [(" ", palette.dim), *dots(player.lesson, player.record, player.index, look)]
    line.append((f"  {player.index + 1} of {len(player.lesson.steps)}  ", palette.dim))
    line.append((player.step.kind, palette.accent))
    pages, sheets = len(player.step.words.pages), len(standing.sheets)
    if standing.started and pages + sheets > 2:
        screen = player.page + standing.sheet + 1
        line.append((f"  {screen} of {max(pages, player.page + sheets)}", palette.faint))
    return line


def told(standing: Standing, elsewhere: str, now_mono: float, width: int, look: Look) -> list[Line]:
    """Everything on the sheet."""
    if not standing.started:
        return _starting(standing, now_mono, width, look)
    kind = standing.shown.kind
    if kind is Kind.RESULT:
        return _result(standing, width, look)
    if kind is Kind.ANSWER:
        return _answer(standing, width, look)
    return _page(standing, elsewhere, now_mono, width, look)


def _starting(standing: Standing, now_mono: float, width: int, look: Look) -> list[Line]:
    palette, glyphs = look.palette, look.glyphs
    lesson = standing.player.lesson
    about = f"{lesson.minutes} minutes {glyphs.dot} {lesson.sandbox.runs_on} {glyphs.dot} seed {lesson.seed}"
    head = [*flow(lesson.about, width, look), *flow(about, width, look, style=palette.dim)]
    if standing.trouble is not None:
        return apart_lines(head, _trouble(standing, width, look))
    seconds = age(max(0.0, now_mono - standing.since))
    line: Line = [(f"{glyphs.starting} ", palette.accent), ("its platform starts ", palette.text)]
    steps = [[*line, (seconds, palette.dim)]]
    for step in standing.readiness.steps if standing.readiness is not None else ():
        lead = (f"{glyphs.done} ", palette.good) if step.done else (f"{glyphs.starting} ", palette.accent)
        words = f"{step.subject}  {step.detail}"
        steps += flow(words, width, look, lead=lead, style=palette.dim if step.done else palette.text)
    return apart_lines(head, steps)


def _trouble(standing: Standing, width: int, look: Look) -> list[Line]:
    """Why there is no platform, with the end of the log that tells more."""
    palette = look.palette
    error = standing.trouble
    assert error is not None
    lines = flow(error.message, width, look, lead=(f"{look.glyphs.failed} ", palette.bad), style=palette.bad)
    log: list[Line] = [[(text, palette.dim)] for text in getattr(error, "log", [])[-8:]]
    hint = flow(error.hint, width, look, lead=("hint ", palette.watch)) if error.hint else []
    return [*lines, *log, *hint]


def _page(standing: Standing, elsewhere: str, now_mono: float, width: int, look: Look) -> list[Line]:
    player, palette = standing.player, look.palette
    words = markdown(standing.shown.words, width, look)
    typed = _elsewhere(standing, elsewhere, width, look)
    if not standing.asked:
        return apart_lines(words, typed)
    reply = standing.reply
    shown = player.hints_shown()
    message = reply.message if reply.message not in (*shown, unmet(reply.verdicts)) else ""
    said = flow(message, width, look, style=palette.watch) if message else []
    noted = flow(standing.note, width, look, style=palette.watch) if standing.note else []
    return apart_lines(
        words,
        _question(standing, width, look),
        typed,
        verdicts(() if gives_away(player, reply) else reply.verdicts, width, look),
        hints(shown, width, look),
        said,
        noted,
        _doing(standing, now_mono, width, look),
    )


def news_at(standing: Standing, width: int, look: Look) -> int:
    """The line of the sheet below its words: there is what is asked, and what came of it."""
    if not standing.started or standing.shown.kind is not Kind.PAGE:
        return 0
    return len(markdown(standing.shown.words, width, look)) + 1


def _question(standing: Standing, width: int, look: Look) -> list[Line]:
    step, draft = standing.player.step, standing.draft
    if draft is not None and isinstance(step, Predict | Quiz):
        if not draft.by_number:
            return choices(draft, width, look)
        return [entry(draft, step.unit if isinstance(step, Predict) else "", look, open_=standing.answers)]
    if isinstance(step, Do | Observe):
        # What is made to fail is for the learner to find.
        told = (action.told() for action in step.actions if not isinstance(action, Inject))
        return commands(told, width, look)
    return []


def _elsewhere(standing: Standing, elsewhere: str, width: int, look: Look) -> list[Line]:
    """Where a command is typed, where one is wanted: some can be given in the live view, too."""
    wanted = standing.waits and isinstance(standing.player.step, Check)
    shown = standing.player.hints_shown() if standing.asked else ()
    named = commands_in(standing.shown.words, *shown)
    if not elsewhere or not (wanted or named):
        return []
    dim = look.palette.dim
    here = "In the live view, or in" if not named or named & {verb.value for verb in Verb} else "In"
    where, home = f"{here} another terminal: inferdeck …", f"--home {elsewhere}"
    together = f"{where} {home}"
    parts = [together] if width_of([(together, dim)]) <= width else [where, home]
    return [line for each in parts for line in flow(each, width, look, style=dim)]


def _doing(standing: Standing, now_mono: float, width: int, look: Look) -> list[Line]:
    if not standing.doing:
        return []
    seconds = age(max(0.0, now_mono - standing.since))
    words = f"{standing.doing} {seconds}"
    return flow(words, width, look, lead=(f"{look.glyphs.decoding} ", look.palette.good), style=look.palette.text)


def _result(standing: Standing, width: int, look: Look) -> list[Line]:
    reply = standing.player.results()
    return apart_lines(
        results(reply.rows, reply.outcomes, width, look),
        scores(reply.outcomes, width, look),
    )


def _answer(standing: Standing, width: int, look: Look) -> list[Line]:
    palette, glyphs = look.palette, look.glyphs
    step, state = standing.player.step, standing.player.here.state
    head: list[Span]
    if state is State.SKIPPED:
        head = [("skipped: so it is", palette.watch)]
    elif isinstance(step, Quiz | Check):
        head = [(f"{glyphs.done} ", palette.good), ("right" if isinstance(step, Quiz) else "done", palette.good)]
    else:
        head = [("why", palette.accent)]
    done = [each for each in standing.reply.verdicts if isinstance(step, Check)]
    return apart_lines([head], verdicts(done, width, look), markdown(standing.shown.words, width, look))


def pressed(standing: Standing) -> Keys:
    """What can be pressed, the most likely first."""
    if not standing.started:
        return (("Enter", "try again"), ("Esc", "leave")) if standing.trouble is not None else (("Esc", "leave"),)
    if standing.doing:
        return (("Esc", "leave"),)
    if standing.repeats and not standing.waits:
        return (("→", "go on"), ("Enter", f"{_DOES[standing.player.step.kind]} again"))
    if not standing.waits:
        return (("→", "finish" if standing.player.last and not standing.more else "go on"),)
    step = standing.player.step
    rest = (*((("h", "hint"),) if step.words.hints else ()), ("s", "skip"))
    if isinstance(step, Predict | Quiz):
        draft = standing.draft
        verb = "commit" if isinstance(step, Predict) else "answer"
        if draft is None or draft.by_number:
            # With something typed, a letter is of the number's unit.
            more = [key for key in rest if key[0] != "s" or draft is None or not draft.typed]
            return (("0-9", "type"), ("Enter", verb), *more)
        letters = " ".join(letter(index) for index in range(len(draft.options)))
        return ((letters, "choose"), ("Enter", verb), *rest)
    live = (("Tab", "live view"),) if isinstance(step, Check) else ()
    again = " again" if isinstance(step, Do | Observe) and standing.came and not standing.reply.ok else ""
    return (("Enter", f"{_DOES[step.kind]}{again}"), *live, *rest)
