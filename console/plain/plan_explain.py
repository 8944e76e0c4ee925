"""How the figures of a plan came about, as text."""

from __future__ import annotations

from collections.abc import Iterable

from console.plain.terminal import paint
from console.text import literal, wrap
from control_plane.contracts.sizing.explain import Explanation


def explanation_page(explanations: Iterable[Explanation], columns: int | None) -> list[str]:
    """A paragraph for each figure, at most ``columns`` wide (None: not cut)."""
    width = max(40, columns or 10**6)
    lines: list[str] = []
    for entry in explanations:
        lines += ["", *(paint(line, "title") for line in wrap(f"{entry.name} = {entry.result}", width))]
        for step in entry.lines:
            first, *rest = wrap(literal(step), width - 4)
            lines += [f"  {first}", *(f"    {line}" for line in rest)]
    return lines
