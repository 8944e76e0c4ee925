"""The policy: what callers may do, and how they are served; every part of it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget

from console.plain.policy_table import SETTING, VALUE, Section, sections
from console.tui.deck import deck_of
from console.tui.live.board import View
from console.tui.messages import PolicyRead
from console.tui.render.look import Look
from console.tui.render.spans import Span, Spans, fit, greyed, width_of
from console.tui.route import Route
from console.tui.screens.deck_screen import DeckScreen
from console.tui.widgets.lines import Lines
from control_plane.contracts.policy_document import document_of

ASK_AGAIN_S = 2.0
_GAP = 2
_INDENT = 3


class PolicyScreen(DeckScreen):
    hints = (("j k", "scroll"),)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "by(1)", show=False),
        Binding("up,k", "by(-1)", show=False),
        Binding("pagedown,space", "by(10)", show=False),
        Binding("pageup", "by(-10)", show=False),
        Binding("g,home", "by(-100000)", show=False),
        Binding("G,end", "by(100000)", show=False),
    ]

    def __init__(self, route: Route) -> None:
        super().__init__(route)
        self._newest = self._shown = PolicyRead()
        self._asked = -math.inf

    def body(self) -> Iterator[Widget]:
        with VerticalScroll(can_focus=False):
            yield Lines(name="policy")

    def policy_read(self, news: PolicyRead) -> None:
        # Where it cannot be told now, the one that was told last stays, and a line above says so.
        self._newest = PolicyRead(self._newest.policy, news.error) if news.error else news
        self.show(deck_of(self).view())

    def show(self, view: View) -> None:
        self._ask(view)
        if not view.paused or self._shown.policy is None:
            self._shown = self._newest
        look = deck_of(self).look
        lines = policy_lines(self._shown, look, self.room.width, self.needle)
        if view.stale:
            lines = [greyed(line, look.palette.faint) for line in lines]
        page = self.query_one("#policy", Lines)
        if page.styles.height is None or page.styles.height.value != len(lines):
            page.styles.height = max(1, len(lines))
        page.put(lines)

    def filter(self, needle: str) -> None:
        self.needle = needle
        self.show(deck_of(self).view())

    def action_by(self, by: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)

    def _ask(self, view: View) -> None:
        if not view.stale and view.now_mono - self._asked >= ASK_AGAIN_S:
            self._asked = view.now_mono
            deck_of(self).ask_policy()


def policy_lines(news: PolicyRead, look: Look, width: int, needle: str = "") -> list[Spans]:
    """Every section under its name; rows without ``needle`` are left out."""
    palette = look.palette
    lines: list[Spans] = [[(f"  {news.error}", palette.watch)]] if news.error else []
    if news.policy is None:
        return lines or [[("  the policy is not known yet", palette.dim)]]
    for section in sections(document_of(news.policy)):
        lines += [
            [],
            [(f" {section.name or 'policy'}", palette.title)],
            *_table(section.fitted(width - _INDENT), look, needle),
        ]
    return lines


def _table(section: Section, look: Look, needle: str) -> list[Spans]:
    palette = look.palette
    rows = [row for row in section.rows if any(needle.lower() in cell.lower() for cell in row)]
    if not rows:
        return [[("  no such row" if section.rows else "  nothing is set", palette.dim)]]
    first, *others = section.columns
    # Beside settings stand values, or the names that others chose.
    heads = (first.lower(), *(others if first == SETTING and others != [VALUE] else (each.lower() for each in others)))
    widths = [
        max(width_of([(row[index], palette.text)]) for row in (heads, *rows)) + _GAP for index in range(len(heads))
    ]

    def line(cells: tuple[str, ...], *, head: bool) -> Spans:
        spans: list[Span] = [("  ", palette.dim)]
        for index, (cell, width) in enumerate(zip(cells, widths, strict=True)):
            style = palette.dim if head else palette.text if index else palette.accent
            spans += fit([(cell, style)], width)
        return spans

    return [line(heads, head=True), *(line(row, head=False) for row in rows)]
