"""Any size of terminal, at any time."""

from __future__ import annotations

import random

import pytest

from console.tui.screens.confirm import ConfirmScreen
from console.tui.widgets.log_view import MOST_LINES, LogView
from tests.snapshots.memory import NOW, snapshot, worker
from tests.unit.console.tui.harness import Console, console

EVERYWHERE = (
    "workers",
    "requests",
    "pools",
    "events",
    "keys",
    "decisions",
    "explain req-1388",
    "logs",
    "worker smollm2-1",
    "engine smollm2-1",
    "request req-1388",
    "help",
    "drain smollm2-1",
)


def check(seen: Console) -> None:
    """Every line is exactly as wide as the terminal."""
    width, height = seen.app.size
    strips = seen.app.screen._compositor.render_strips(seen.app.size)
    assert len(strips) == height
    assert {strip.cell_length for strip in strips} <= {width}


@pytest.mark.parametrize("size", [(80, 24), (60, 16), (160, 48)])
async def test_every_screen_works_at(size: tuple[int, int]) -> None:
    async with console(size=size, first=snapshot(workers=8, requests=50)) as seen:
        for line in EVERYWHERE:
            await seen.command(line)
            check(seen)
            assert "too small" not in seen.text


async def test_too_small_says_so_and_recovers() -> None:
    async with console(size=(1, 1)) as seen:
        for size in ((59, 24), (80, 15), (40, 10), (20, 5), (7, 3), (1, 1)):
            await seen.pilot.resize_terminal(*size)
            await seen.settle()
            check(seen)
            assert seen.lines[0].strip() == ("too small" if size[0] > 8 else "too small"[: size[0] - 1] + "…")
            assert "smollm2" not in seen.text
            await seen.pilot.resize_terminal(80, 24)
            await seen.settle()
            assert "smollm2-1" in seen.text


async def test_nothing_can_be_ordered_that_cannot_be_seen() -> None:
    async with console(size=(40, 10)) as seen:
        await seen.press("ctrl+d", "colon", "question_mark", "y")
        await seen.pilot.resize_terminal(80, 24)
        await seen.settle()
        assert not isinstance(seen.app.screen, ConfirmScreen)
        await seen.press("ctrl+d")
        await seen.pilot.resize_terminal(40, 10)
        await seen.settle()
        assert "too small" in seen.text
        await seen.press("y")
        assert isinstance(seen.app.screen, ConfirmScreen)
        assert seen.platform.done == []
        await seen.pilot.resize_terminal(80, 24)
        await seen.settle()
        assert "Drain worker smollm2-1" in seen.text


async def test_a_storm_of_sizes() -> None:
    dice = random.Random(7)
    async with console(first=snapshot(workers=5, requests=20), log=b"line\n" * 50) as seen:
        for step, line in enumerate(EVERYWHERE):
            seen.app.command(line)
            for _ in range(3):
                await seen.pilot.resize_terminal(dice.randint(1, 200), dice.randint(1, 60))
            seen.platform.queue.put_nowait(
                snapshot(NOW + step, workers=dice.randint(0, 9), requests=dice.randint(0, 60))
            )
            await seen.pilot.press("escape")
        await seen.pilot.resize_terminal(80, 24)
        await seen.settle()
        await seen.command("workers")
        check(seen)
        assert "InferDeck ▸ system" in seen.text


async def test_wide_names_stay_in_their_columns() -> None:
    names = ("日本語のワーカー名前", "plain", "emoji 🚀🚀🚀 worker", "한국어", "combining e\u0301\u0302")
    async with console(first=snapshot(workers=tuple(worker(name) for name in names))) as seen:
        check(seen)
        rows = [line for line in seen.lines if "● ready" in line]
        assert len(rows) == len(names)
        from rich.cells import cell_len

        assert len({cell_len(row[: row.index("61%")]) for row in rows}) == 1


async def test_a_hundred_thousand_lines_of_log() -> None:
    async with console(log=b"INFO %s a line of a log\n" % (b"x" * 60)) as seen:
        await seen.command("logs worker/smollm2-1")
        burst = b"".join(b"line %d of very many\n" % number for number in range(100_000))
        for start in range(0, len(burst), 60_000):
            seen.platform.log_queue.put_nowait(burst[start : start + 60_000])
        await seen.until(lambda: "line 99999 of very many" in seen.text)
        assert seen.app.screen.query_one(LogView).lines == MOST_LINES
        check(seen)
