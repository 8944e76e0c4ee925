"""What an event says, beside its subject."""

from __future__ import annotations

from control_plane.contracts.fleet import Event


def event_message(event: Event) -> str:
    """Without the subject, for where that stands before it."""
    return event.message.removeprefix(event.subject).lstrip()
