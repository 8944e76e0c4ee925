"""The KV cache at the moment that is looked at: its sums, and a cell for each block, or for each few."""

from __future__ import annotations

from collections.abc import Mapping

from console.tui.deck import deck_of
from console.tui.live.steps import Moment
from console.tui.render.block_map import map_head, map_lines
from console.tui.render.spans import Spans, greyed
from console.tui.widgets.lines import Lines


class BlockMap(Lines):
    def show(self, moment: Moment | None, badges: Mapping[str, int], picked: str | None, *, stale: bool) -> None:
        """``picked`` is the request whose blocks stand out."""
        width, height = self.size
        if moment is None or width <= 0 or height <= 0:
            return self.put([])
        look = deck_of(self).look
        lines: list[Spans] = [map_head(moment, width, height - 1, look)]
        if height > 1:
            lines += map_lines(moment, badges, picked, width, height - 1, look)
        return self.put([greyed(line, look.palette.faint) for line in lines] if stale else lines)
