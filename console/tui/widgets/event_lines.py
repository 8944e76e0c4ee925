"""The last few events, newest last."""

from __future__ import annotations

from console.tui.deck import deck_of
from console.tui.live.board import View
from console.tui.render.spans import Spans, greyed
from console.tui.widgets.event_table import event_spans
from console.tui.widgets.lines import Lines


class EventLines(Lines):
    def show(self, view: View) -> None:
        look = deck_of(self).look
        height = self.size.height
        lines: list[Spans] = [event_spans(event, look) for event in view.events[-height:]] if height else []
        lines = lines or [[(" no event yet", look.palette.faint)]]
        self.put([greyed(line, look.palette.faint) for line in lines] if view.stale else lines)
