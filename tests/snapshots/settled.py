"""When a screen has come to rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual.pilot import Pilot

LOOKS = 3000
RESTED = 2


def always() -> bool:
    return True


async def settled(pilot: Pilot[Any], ready: Callable[[], bool] = always) -> None:
    """Return once it is ``ready`` and ``RESTED`` looks in a row show the same.

    A busy machine may let time pass between a message and the layout that follows from it, so that no number of
    pauses is the right one.
    """
    seen, same = "", 0
    for _ in range(LOOKS):
        await pilot.pause(0.01)
        if not ready():
            same = 0
            continue
        shown = pilot.app.export_screenshot()
        same = same + 1 if shown == seen else 1
        if same == RESTED:
            return
        seen = shown
    raise AssertionError("the screen does not come to rest")
