"""A conversation in full, as labelled lines and a table of its items."""

from __future__ import annotations

from collections.abc import Iterator

from console import figures
from console.plain.access import date
from console.plain.history import item_columns
from console.plain.table import table
from control_plane.contracts.history_view import ConversationDetail

Line = tuple[str, str]


def conversation_lines(detail: ConversationDetail, max_width: int | None, *, content: bool) -> Iterator[Line | str]:
    """``content``: with what was said, after each item's head."""
    now, found = detail.taken_unix, detail.conversation
    if found is None:
        return
    yield "conversation", found.id
    yield "tenant", found.tenant
    yield "created", date(found.created_unix)
    yield "changed", f"{date(found.updated_unix)} ({figures.age(max(0.0, now - found.updated_unix))} ago)"
    yield "size", f"{figures.plural(found.items, 'item')} · {found.characters:,} characters"
    running = sum(item.status == "in_progress" for item in detail.items)
    yield "running", figures.plural(running, "turn") if running else "nothing"
    if content:
        for item in detail.items:
            yield ""
            yield item.role, item.text
    elif detail.items:
        yield ""
        yield "items:"
        made = table(detail.items, list(item_columns(now)), max_width and max(1, max_width - 2))
        yield from ("  " + line for line in made.lines)
