"""The batch step by step, as a grid: a column per step, a row per request. Says what is there, not how it looks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

from console.tui.live.steps import Moment, Tape
from control_plane.contracts.step import EngineStep, StepKind, StepRow, StepWaiting


class Mark(Enum):
    """What a step did with a request. ``HELD``: it kept its blocks, and nothing was scheduled for it."""

    NONE = 0
    CHUNK = 1
    LAST_CHUNK = 2
    DECODE = 3
    FINISHED = 4
    ABORTED = 5
    FAILED = 6
    PREEMPTED = 7
    WAITING = 8
    HELD = 9


class Sort(Enum):
    JOINED = "joined"
    BLOCKS = "blocks"
    CONTEXT = "context"
    PRIORITY = "priority"

    def next(self) -> Sort:
        every = list(Sort)
        return every[(every.index(self) + 1) % len(every)]


class Standing(Enum):
    """Where a request is at the step that is looked at."""

    HERE = 0
    ENDED = 1
    YET_TO_COME = 2


@dataclass(frozen=True, slots=True)
class Column:
    """A step, or the place of steps that are not there: ``lost`` on their way, ``skipped`` because nobody traced."""

    step: EngineStep | None = None
    lost: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class Note:
    """The last thing of note that happened to a request: joined, resumed, preempted or why it ended, and at which
    step; 0 when none was in sight."""

    what: str = ""
    step: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class GridRow:
    """``context`` is tokens whose KV is there after the step, ``row`` the request's last part of a step up to it,
    ``waiting`` its place in the queue at it."""

    request_id: str
    badge: int
    marks: tuple[Mark, ...]
    standing: Standing
    note: Note = Note()
    row: StepRow | None = None
    waiting: StepWaiting | None = None
    blocks: int = 0

    @property
    def context(self) -> int:
        return self.row.computed + self.row.tokens if self.row is not None and self.waiting is None else 0

    @property
    def priority(self) -> int | None:
        """None of one that has not come yet."""
        if self.waiting is not None:
            return self.waiting.priority
        return self.row.priority if self.row is not None else None


_KINDS = {StepKind.PREFILL: Mark.CHUNK, StepKind.LAST_PREFILL: Mark.LAST_CHUNK, StepKind.DECODE: Mark.DECODE}
_ENDS = {"abort": Mark.ABORTED, "error": Mark.FAILED}


def columns(tape: Tape, end: int, width: int) -> list[Column]:
    """At most ``width`` columns up to the tape's step at ``end``; places of missing steps take a column each.

    Where steps are traced one in so many, a distance like the one before it is no gap.
    """
    steps = tape.steps[max(0, end + 1 - width) : end + 1] if width > 0 else ()
    missing = [after.step - before.step - 1 for before, after in pairwise(steps)]
    out: list[Column] = []
    for index, step in enumerate(steps):
        between = missing[index - 1] if index else 0
        lost = min(between, max(0, step.dropped - steps[index - 1].dropped)) if index else 0
        beside = missing[index - 2] if index > 1 else min(missing, default=0)
        if lost or (between and between != beside):
            out.append(Column(lost=lost, skipped=between - lost))
        out.append(Column(step))
    return out[-width:] if width > 0 else []


def rows(shown: Sequence[Column], cursor: int, moment: Moment, tape: Tape, sort: Sort) -> list[GridRow]:
    """Everybody who is in one of the columns, or holds blocks at the moment; ``cursor`` is the moment's column.

    Those who are there at the moment come first, in the order asked for; then who has ended, the latest first.
    """
    lives = {table.request_id: _Life(len(shown), cursor, 0) for table in moment.tables}
    known_from = 0
    for index, column in enumerate(shown):
        if column.step is None:
            known_from = index + 1
            continue
        for name in _named(column.step):
            if name not in lives:
                lives[name] = _Life(len(shown), cursor, known_from)
            lives[name].known_from = known_from
        _mark(column.step, index, lives)
    blocks = {table.request_id: len(table.blocks) for table in moment.tables}
    made = [life.row(name, tape.badges.get(name, 0), blocks.get(name, 0)) for name, life in lives.items()]
    return sorted(made, key=lambda row: _order(row, sort))


def _order(row: GridRow, sort: Sort) -> tuple[int, int, int]:
    if row.standing is not Standing.HERE:
        return row.standing.value, -row.note.step, row.badge
    by = {Sort.BLOCKS: -row.blocks, Sort.CONTEXT: -row.context, Sort.PRIORITY: row.priority or 0}
    return 0, by.get(sort, 0), row.badge


def _named(step: EngineStep) -> Iterator[str]:
    """Everybody of whom the step says something; some more than once."""
    yield from (waiting.request_id for waiting in step.waiting)
    yield from step.preempted
    yield from (row.request_id for row in step.rows)
    yield from (finished.request_id for finished in step.finished)


def _mark(step: EngineStep, index: int, lives: Mapping[str, _Life]) -> None:
    for waiting in step.waiting:
        lives[waiting.request_id].waits(index, waiting)
    for name in step.preempted:
        lives[name].preempted(index, step.step)
    for row in step.rows:
        lives[row.request_id].runs(index, step.step, row)
    for finished in step.finished:
        lives[finished.request_id].ends(index, step.step, finished.reason, finished.output_tokens)


class _Life:
    """What the columns say of one request, gathered from left to right. ``known_from`` is the column after the last
    gap: what a request did before a gap does not follow from what it does after it."""

    def __init__(self, width: int, cursor: int, known_from: int) -> None:
        self.known_from = known_from
        self._marks = [Mark.NONE] * width
        self._cursor = cursor
        self._since: int | None = None  # the first column of a stretch in which it holds blocks
        self._begun = False
        self._note = Note()
        self._row: StepRow | None = None
        self._row_at = -1
        self._waiting: StepWaiting | None = None
        self._ended = False
        self._seen = False

    def waits(self, index: int, waiting: StepWaiting) -> None:
        self._marks[index] = Mark.WAITING
        self._begun = True
        if index <= self._cursor:
            self._seen = True
            self._waiting = waiting if index == self._cursor else None

    def preempted(self, index: int, step: int) -> None:
        self._hold(index)
        self._marks[index] = Mark.PREEMPTED
        self._since = None
        self._remember(index, Note("preempted", step))

    def runs(self, index: int, step: int, row: StepRow) -> None:
        if row.joined or row.resumed:
            self._remember(index, Note("joined" if row.joined else "resumed", step))
        else:
            self._hold(index)
        self._begun = True
        self._since = index + 1
        self._marks[index] = _KINDS.get(row.kind, Mark.DECODE)
        if index <= self._cursor:
            self._seen, self._row, self._row_at, self._waiting = True, row, index, None

    def ends(self, index: int, step: int, reason: str, output_tokens: int) -> None:
        if self._marks[index] is Mark.NONE:
            self._hold(index)
        self._marks[index] = _ENDS.get(reason, Mark.FINISHED)
        self._since = None
        self._begun = True
        self._remember(index, Note(reason or "ended", step, output_tokens))
        if index <= self._cursor:
            self._ended, self._waiting = True, None

    def row(self, name: str, badge: int, blocks: int) -> GridRow:
        if self._since is not None or (not self._begun and blocks):
            self._hold(len(self._marks))
        if self._row is not None and self._row_at == self._cursor and not self._ended:
            blocks = self._row.blocks or blocks
        standing = Standing.ENDED if self._ended else Standing.HERE if self._seen or blocks else Standing.YET_TO_COME
        return GridRow(name, badge, tuple(self._marks), standing, self._note, self._row, self._waiting, blocks)

    def _hold(self, until: int) -> None:
        """It was there all the time since it was seen last, or since what is known begins, if never."""
        first = self._since if self._since is not None else self.known_from if not self._begun else until
        for index in range(first, until):
            if self._marks[index] is Mark.NONE:
                self._marks[index] = Mark.HELD
        self._begun = True

    def _remember(self, index: int, note: Note) -> None:
        if index <= self._cursor:
            self._seen, self._note = True, note
