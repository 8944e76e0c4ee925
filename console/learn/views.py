"""The live views of a lesson, as lines: the tables that ``inferdeck get`` prints, and a grid of engine steps."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

from console.client import OperatorClient
from console.plain.blocks import block_lines
from console.plain.resources import RESOURCES
from console.plain.step_grid import step_grid
from console.plain.table import table
from control_plane.contracts.step import EngineStep
from lessons.model import View

ROOM = 75
LAST = 12
"""Rows of what grows without end."""


async def view_lines(client: OperatorClient, view: View, of: str) -> tuple[str, ...]:
    if view == "blocks":
        return tuple(block_lines(await client.blocks(of), of, ROOM))
    if view == "steps":
        return tuple(step_grid(await _last_steps(client, of), ROOM))
    snapshot = await client.get_snapshot(finished_requests=True)
    resource = RESOURCES[view]
    rows: list[Any] = list(resource.rows(snapshot))
    if of:
        rows = [row for row in rows if resource.name(row) == of]
    columns = [column for column in resource.columns(snapshot) if not column.wide and column.title != "NOTE"]
    return tuple(table(rows[-LAST:], columns, ROOM).lines)


async def _last_steps(client: OperatorClient, worker_id: str) -> tuple[EngineStep, ...]:
    found: list[EngineStep] = []
    async with aclosing(client.watch_steps(worker_id, live=False, last_steps=4 * ROOM)) as frames:
        async for frame in frames:
            found += frame.steps
    return tuple(found)
