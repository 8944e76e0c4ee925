"""The batch step by step: a row for each request, with a cursor that stays with it, a column for each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from console.tui.deck import deck_of
from console.tui.live.batch import Column, GridRow, Sort, columns, rows
from console.tui.live.steps import Moment, Tape
from console.tui.render.look import Look
from console.tui.render.spans import Span, Spans, fit, greyed
from console.tui.render.step_grid import layout, legend, row_line, ruler, times, title, tokens, uses
from console.tui.render.step_head import Limits, needs
from console.tui.widgets.lines import Lines
from control_plane.contracts.step import EngineStep

_PROFILES_FROM = (7, 9, 18)  # lines from which on the steps' times, tokens and KV use are drawn above the requests
_LEGEND_FROM = 11


@dataclass(frozen=True, slots=True)
class Scene:
    """What there is to draw: the tape up to its step at index ``end``, and the moment that is looked at."""

    tape: Tape
    end: int
    moment: Moment
    sort: Sort
    limits: Limits
    stale: bool = False


class StepGrid(Lines, can_focus=True):
    DEFAULT_CSS = "StepGrid { height: 1fr; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", show=False),
        Binding("up,k", "move(-1)", show=False),
        Binding("pagedown,ctrl+f", "page(1)", show=False),
        Binding("pageup,ctrl+b", "page(-1)", show=False),
        Binding("enter", "choose", show=False),
    ]

    @dataclass
    class Chosen(Message):
        """Enter, or a double click, on a request."""

        request_id: str

    class Moved(Message):
        """The cursor came to another request."""

    def __init__(self, *, name: str | None = None) -> None:
        super().__init__(name=name)
        self._scene: Scene | None = None
        self._rows: list[GridRow] = []
        self._needle = ""
        self._priority = False
        self._current: str | None = None
        self._index = 0
        self._top = 0

    @property
    def current(self) -> str | None:
        """The request under the cursor."""
        return self._current

    @property
    def shown(self) -> Sequence[str]:
        """The requests that the filter let through, in their order."""
        return [row.request_id for row in self._rows]

    @property
    def step_columns(self) -> int:
        """How many steps there is room for."""
        return layout(self.size.width, priority=self._priority).steps

    def show(self, scene: Scene | None) -> None:
        self._scene = scene
        if scene is None:
            self._rows, self._current = [], None
            self.put([])
        elif self.size.width > 0:
            self._draw(scene)

    def to_top(self) -> None:
        """With the next scene the cursor is on the first request: nobody moves it here."""
        self._current, self._index, self._top = None, 0, 0

    def pick(self, request_id: str) -> None:
        """With the next scene the cursor is on this request."""
        self._current = request_id

    def filter(self, needle: str) -> None:
        """Show the requests whose id contains this text, in whatever case."""
        self._needle = needle.casefold()
        self.show(self._scene)

    def _draw(self, scene: Scene) -> None:
        look = deck_of(self).look
        step, moment = scene.moment.step, scene.moment
        # Once there, the column stays: a grid that changes its width with every request cannot be read.
        self._priority = self._priority or _priorities(step)
        parts = layout(self.size.width, priority=self._priority)
        shown, cursor = _in_sight(scene, parts.steps)
        every = rows(shown, cursor, moment, scene.tape, scene.sort)
        self._rows = [row for row in every if not self._needle or self._needle in row.request_id.casefold()]
        self._keep_cursor()
        space, over, below = self._share()
        profiles = (
            times(shown, cursor, parts, look),
            tokens(shown, cursor, parts, scene.limits.tokens, look),
            uses(shown, cursor, parts, look),
        )
        lines: list[Spans] = [*profiles[:over]]
        lines.append(ruler(shown, cursor, parts, title(space, len(self._rows)), scene.sort, look))
        self._keep_in_sight(space)
        bottom = self._top + space
        for index, row in enumerate(self._rows[self._top : bottom], start=self._top):
            need = needs(row.waiting, moment) if row.waiting is not None else ""
            line = row_line(row, shown, cursor, parts, need, look)
            lines.append(self._under_cursor(line, look) if index == self._index else line)
        if below:
            lines += [[] for _ in range(self.size.height - 1 - len(lines))]
            lines.append(legend(self.size.width, look))
        self.put([greyed(line, look.palette.faint) for line in lines] if scene.stale else lines)

    def _share(self) -> tuple[int, int, bool]:
        """Lines for requests, for profiles above them, and whether the legend is there."""
        height = self.size.height
        over = sum(height >= least for least in _PROFILES_FROM)
        below = height >= _LEGEND_FROM
        return max(0, height - 1 - over - below), over, below

    def _under_cursor(self, line: Sequence[Span], look: Look) -> list[Span]:
        over = look.palette.cursor if self.has_focus else look.palette.cursor_blurred
        return [(text, style + over) for text, style in fit(line, self.size.width, look.glyphs.ellipsis)]

    def _keep_cursor(self) -> None:
        """With its request; where that is gone, at its place."""
        ids = self.shown
        if self._current in ids:
            self._index = ids.index(self._current)
        self._index = max(0, min(self._index, len(ids) - 1))
        self._current = ids[self._index] if ids else None

    def _keep_in_sight(self, space: int) -> None:
        self._top = max(self._index - space + 1, min(self._top, self._index, max(0, len(self._rows) - space)), 0)

    def on_resize(self) -> None:
        self.show(self._scene)

    def on_focus(self) -> None:
        self.show(self._scene)

    def on_blur(self) -> None:
        self.show(self._scene)

    def action_move(self, by: int) -> None:
        self._move_to(self._index + by)

    def action_page(self, by: int) -> None:
        self._move_to(self._index + by * max(1, self._share()[0] - 1))

    def action_choose(self) -> None:
        if self._current is not None:
            self.post_message(self.Chosen(self._current))

    def on_click(self, event: events.Click) -> None:
        _, over, _ = self._share()
        index = self._top + event.y - 1 - over
        if event.y > over and index < len(self._rows):
            self._move_to(index)
            if event.chain == 2:
                self.action_choose()

    def _move_to(self, index: int) -> None:
        index = max(0, min(index, len(self._rows) - 1))
        if index != self._index and self._rows:
            self._index, self._current = index, self._rows[index].request_id
            self.show(self._scene)
            self.post_message(self.Moved())


def _in_sight(scene: Scene, width: int) -> tuple[list[Column], int]:
    """The columns, and which of them is looked at. Places of missing steps may push it out: then it is the last one."""
    for end in (scene.end, scene.tape.index(scene.moment.step.step)):
        shown = columns(scene.tape, end, width)
        at = next((i for i, column in enumerate(shown) if column.step is scene.moment.step), None)
        if at is not None:
            return shown, at
    return [], -1


def _priorities(step: EngineStep) -> bool:
    return any(row.priority for row in step.rows) or any(waiting.priority for waiting in step.waiting)
