"""A request's last decision on its page: why there, and why not elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from console.decision_notes import waited_words, why, why_not, why_rejected
from console.tui.render.look import Look
from console.tui.render.spans import Spans
from control_plane.contracts.decision import DecisionView

_MOST: Final = 4


def decision_lines(decisions: Sequence[DecisionView], look: Look, error: str = "") -> list[Spans]:
    """The last one, and where it was sent before; ``error``: why there is none to tell."""
    palette = look.palette
    if not decisions:
        return [[], [("  why there", palette.title)], [(f"  {error}", palette.dim)]] if error else []
    last = decisions[-1]
    words = "; ".join(part for part in (why(last), waited_words(last)) if part)
    head: Spans = [("  why there", palette.title), ("   w tells all of it", palette.faint)]
    lines: list[Spans] = [
        [],
        head,
        [
            (f"  {last.chosen or 'nowhere yet'}", palette.good if last.chosen else palette.watch),
            (f"  {words}", palette.text),
        ],
    ]
    others = [(each.worker_id, why_not(last, each)) for each in last.candidates if each is not last.picked]
    others += [(each.worker_id, why_rejected(each)) for each in last.rejected]
    lines += [[(f"  not {name}", palette.dim), (f"  {told}", palette.dim)] for name, told in others[:_MOST]]
    more = len(others) - _MOST + last.more_candidates
    if more > 0:
        lines.append([(f"  nor {more} others", palette.dim)])
    if len(decisions) > 1:
        before = ", ".join(each.chosen or "the queue" for each in decisions[:-1])
        lines.append([(f"  before that: {before}", palette.dim)])
    return lines
