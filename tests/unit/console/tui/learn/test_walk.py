"""A lesson through its screen without a learner."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from console.tui.learn.sheets import Kind
from console.tui.learn.walk import TRIES, Walk
from control_plane.contracts.errors import Conflict, Unavailable
from tests.unit.console.tui.learn.harness import lesson


async def test_a_step_that_does_not_come_out_is_not_tried_for_ever(tmp_path: Path) -> None:
    async with lesson(tmp_path) as seen, asyncio.timeout(60):
        seen.stage.cut = 4
        with pytest.raises(Conflict, match="experiment was tried 3 times: the whole answer came: is 60 tokens, should"):
            await Walk(seen.pilot).go_to("question")
        assert seen.stage.asked.count("1 call (mine)") == TRIES
        seen.stage.breaks = Unavailable("the workers did not come")
        with pytest.raises(Conflict, match="tried 3 times: nothing came of it"):
            await Walk(seen.pilot).go_to("experiment", Kind.RESULT)
        seen.stage.breaks, seen.stage.cut = None, 0
        await Walk(seen.pilot).go_to("question")
        assert seen.screen.player.step.id == "question"
