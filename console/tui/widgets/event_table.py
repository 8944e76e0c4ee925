"""What happened, the newest on top."""

from __future__ import annotations

from rich.style import Style

from console.event_message import event_message
from console.tui.render.figures import clock
from console.tui.render.look import Look
from console.tui.render.spans import Span, Spans
from console.tui.widgets.table import Column, Context, Table
from control_plane.contracts.fleet import Event


def event_table() -> Table[Event]:
    return Table(COLUMNS, event_id, _haystack, empty="no event yet", can_mark=False, name="events")


def event_id(event: Event) -> str:
    return f"{event.at_unix}/{event.seq}"


def severity(event: Event, look: Look) -> tuple[str, Style]:
    faces = {
        "warning": (look.glyphs.busy, look.palette.watch),
        "error": (look.glyphs.failed, look.palette.bad),
    }
    return faces.get(event.severity, (look.glyphs.dot, look.palette.dim))


def event_spans(event: Event, look: Look) -> list[Span]:
    """One event on one line."""
    glyph, style = severity(event, look)
    return [
        (f" {clock(event.at_unix)} ", look.palette.faint),
        (f"{glyph} ", style),
        (f"{event.subject} ", look.palette.accent),
        (event_message(event), style if event.severity != "info" else look.palette.text),
    ]


def _haystack(event: Event) -> str:
    return " ".join((event.kind, event.subject, event.message, event.severity))


def _kind(event: Event, at: Context) -> Spans:
    glyph, style = severity(event, at.look)
    return [(f"{glyph} ", style), (event.kind, at.look.palette.text)]


COLUMNS: tuple[Column[Event], ...] = (
    Column("time", 8, lambda event, at: [(clock(event.at_unix), at.look.palette.dim)]),
    Column("kind", 18, _kind, rank=1),
    Column("about", 20, lambda event, at: [(event.subject, at.look.palette.accent)], rank=2),
    Column("what happened", 20, lambda event, at: [(event_message(event), severity(event, at.look)[1])], grow=1),
)
