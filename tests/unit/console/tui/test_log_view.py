"""The log: followed, kept within bounds, shown as text."""

from __future__ import annotations

from console.tui.widgets.log_view import MOST_CHARS, LogView
from control_plane.contracts.errors import Unavailable
from tests.unit.console.tui.harness import Console, console

LINES = b"".join(b"INFO line %03d\n" % number for number in range(100))


async def opened(seen: Console) -> LogView:
    await seen.command("logs worker/smollm2-1")
    await seen.until(lambda: "line 099" in seen.text)
    return seen.app.screen.query_one(LogView)


async def test_it_follows_the_end() -> None:
    async with console(log=LINES) as seen:
        view = await opened(seen)
        seen.platform.log_queue.put_nowait(b"INFO the newest\n")
        await seen.until(lambda: "the newest" in seen.text)
        assert view.following
        assert "follows" in seen.lines[1]


async def test_scrolling_up_lets_go_and_g_follows_again() -> None:
    async with console(log=LINES) as seen:
        view = await opened(seen)
        await seen.press("g")
        assert not view.following
        assert "line 000" in seen.text
        assert "stands still" in seen.lines[1]
        seen.platform.log_queue.put_nowait(b"INFO the newest\n")
        await seen.until(lambda: view.lines == 101)
        assert "line 000" in seen.text
        await seen.press("G")
        assert view.following
        assert "the newest" in seen.text
        await seen.press("k", "pageup", "pagedown", "down")
        assert view.following


async def test_pieces_are_joined_to_lines_and_characters() -> None:
    async with console(log=LINES) as seen:
        view = await opened(seen)
        for piece in (b"half a li", b"ne \xf0\x9f", b"\x9a\x80 end\n"):
            seen.platform.log_queue.put_nowait(piece)
        await seen.until(lambda: "half a line 🚀 end" in seen.text)
        assert view.lines == 101


async def test_what_is_in_it_shows_and_does_nothing() -> None:
    async with console(log=LINES) as seen:
        await opened(seen)
        seen.platform.log_queue.put_nowait(b"\x1b[2J\x1b]0;title\x07 [bold]x[/bold] \xff\xfe \x9b1m\n")
        await seen.until(lambda: "[bold]x[/bold]" in seen.text)
        assert "\\x1b[2J\\x1b]0;title\\x07" in seen.text
        assert "\x1b" not in seen.text


async def test_progress_bars_leave_all_their_steps() -> None:
    async with console(log=LINES) as seen:
        await opened(seen)
        seen.platform.log_queue.put_nowait(b"load 10%\rload 90%\r\nready\n")
        await seen.until(lambda: "ready" in seen.text)
        assert "load 10%" in seen.text
        assert "load 90%" in seen.text


async def test_records_are_shown_for_people() -> None:
    async with console(log=LINES) as seen:
        await opened(seen)
        seen.platform.log_queue.put_nowait(
            b'{"time": "2023-11-14T22:13:20Z", "level": "warning", "message": "engine slow", "step_ms": 812}\n'
        )
        await seen.until(lambda: "engine slow" in seen.text)
        assert "22:13:20 WARNING engine slow  step_ms=812" in seen.text


async def test_a_very_long_line_is_cut_and_can_be_panned() -> None:
    async with console(log=LINES) as seen:
        view = await opened(seen)
        seen.platform.log_queue.put_nowait(b"start " + b"x" * 50_000 + b"\n")
        await seen.until(lambda: "start xxx" in seen.text)
        assert max(map(len, view._lines)) <= MOST_CHARS
        await seen.press("right")
        assert "start" not in seen.text
        await seen.press("left")
        assert "start xxx" in seen.text


async def test_the_filter() -> None:
    async with console(log=LINES) as seen:
        await opened(seen)
        await seen.type("/line 04")
        await seen.press("enter")
        assert "line 040" in seen.text
        assert "line 050" not in seen.text
        await seen.press("escape")
        assert "line 099" in seen.text


async def test_why_no_more_comes_is_said_and_what_is_there_stays() -> None:
    async with console(log=LINES) as seen:
        await opened(seen)
        seen.platform.log_queue.put_nowait(Unavailable("no such log"))
        await seen.until(lambda: "── no such log" in seen.text)
        assert "line 099" in seen.text


async def test_a_log_without_a_line() -> None:
    async with console() as seen:
        await seen.command("logs gateway")
        assert "nothing in this log yet" in seen.text
        assert seen.platform.calls == [("logs", "gateway")]


async def test_help_does_not_start_the_log_anew() -> None:
    async with console(log=LINES) as seen:
        await opened(seen)
        await seen.press("question_mark", "escape")
        assert seen.platform.calls == [("logs", "smollm2-1")]
        await seen.press("escape")
        seen.platform.log_queue.put_nowait(b"nobody reads this\n")
        await seen.settle()
        assert not seen.platform.log_queue.empty()
