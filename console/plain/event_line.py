"""An event as one line of plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.event_message import event_message
from console.plain.terminal import paint
from console.text import fit, literal, pad

if TYPE_CHECKING:
    from control_plane.contracts.fleet import Event


def event_line(event: Event, room: int | None) -> str:
    """Cut to ``room`` columns; None leaves it whole."""
    from console.plain.resources import clock, event_style

    subject, message = literal(event.subject), literal(event_message(event))
    line = f"{clock(event.at_unix)}  {pad(event.severity, 7)}  {pad(subject, 18)}  {message}"
    return paint(line if room is None else fit(line, room), event_style(event))
