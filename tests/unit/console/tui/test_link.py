"""The connection, the age of what is shown, and the pause."""

from __future__ import annotations

from console.tui.app import ConsoleApp
from console.tui.messages import Heard, Told
from console.tui.render.look import RICH_LOOK
from console.tui.widgets.table import Table
from control_plane.contracts.errors import Unavailable
from control_plane.contracts.fleet import Event
from tests.snapshots.memory import NOW, MemoryPlatform, snapshot
from tests.unit.console.tui.harness import Console, console


def colours(seen: Console, line: int) -> set[str]:
    """The foreground colours of one line of the screen."""
    (strip,) = seen.app.screen._compositor.render_strips(seen.app.size)[line : line + 1]
    return {str(s.style.color.name) for s in strip if s.style and s.style.color and s.text.strip()}


async def test_before_anything_is_heard_nothing_is_shown_as_known() -> None:
    platform = MemoryPlatform()
    app = ConsoleApp(platform, platform, look=RICH_LOOK, paint_s=0.0, silence_s=1e6)
    async with app.run_test() as pilot:
        seen = Console(app, platform, pilot)
        await seen.settle()
        assert "connecting" in seen.lines[0]
        assert "no worker yet" in seen.text
        body = "\n".join(seen.lines[1:8])
        assert not any(char.isdigit() for char in body.replace("×0", "").replace("4xx", "").replace("5xx", ""))
        await seen.press("ctrl+d")
        assert "nothing is known of the platform yet" in seen.text or "no worker is selected" in seen.text


async def test_a_platform_that_is_not_there_says_why_and_is_tried_again() -> None:
    platform = MemoryPlatform()
    platform.queue.put_nowait(Unavailable("no platform is running in ~/.inferdeck"))
    app = ConsoleApp(platform, platform, look=RICH_LOOK, paint_s=0.0, silence_s=1e6)
    async with app.run_test() as pilot:
        seen = Console(app, platform, pilot)
        await seen.until(lambda: "no platform is running in ~/.inferdeck: trying again" in seen.text)
        platform.queue.put_nowait(snapshot())
        await seen.until(lambda: "● live" in seen.lines[0])
        assert "trying again" not in seen.text


async def test_a_lost_connection_shows_the_age_of_the_data_greyed() -> None:
    async with console() as seen:
        lively = colours(seen, 9)
        await seen.hear(Unavailable("connection refused"))
        await seen.pass_time(42)
        assert "✗ no connection, 42s old" in seen.lines[0]
        assert "connection refused: trying again" in seen.text
        assert "smollm2-1" in seen.text
        assert len(lively) > 3
        assert colours(seen, 9) == {RICH_LOOK.palette.faint.color.name}  # type: ignore[union-attr]
        await seen.hear(snapshot(NOW + 50))
        assert "● live" in seen.lines[0]
        assert "trying again" not in seen.text
        assert len(colours(seen, 9)) > 3
        assert seen.platform.connections == 2


async def test_silence_shows_before_the_connection_is_given_up() -> None:
    async with console() as seen:
        await seen.pass_time(5)
        assert "silent for 5s" in seen.lines[0]


async def test_pause_freezes_the_view_and_not_the_collection() -> None:
    async with console() as seen:
        await seen.press("p")
        before = seen.lines[1:]
        for second in range(1, 30):
            await seen.hear(snapshot(NOW + second, workers=3))
        await seen.pass_time(29)
        await seen.press("j", "k")
        assert "paused, 29s old" in seen.lines[0]
        assert seen.lines[1:] == before
        assert "smollm2-3" not in seen.text
        await seen.press("p")
        await seen.hear(snapshot(NOW + 30, workers=3))
        assert "● live" in seen.lines[0]
        assert "smollm2-3" in seen.text
        samples = seen.app.view().history.window("smollm2-1", NOW + 29, 30.0, 30)
        assert all(sample.kv_use is not None for sample in samples)


async def test_other_screens_are_paused_too() -> None:
    async with console() as seen:
        await seen.press("p")
        await seen.hear(snapshot(NOW + 60, requests=3))
        await seen.command("requests")
        assert "8 requests" in seen.text or "req-138f" in seen.text
        assert "paused" in seen.lines[0]
        await seen.press("enter")
        assert "paused" in seen.lines[0]
        await seen.command("pause")
        assert "● live" in seen.lines[0]


async def test_a_connection_lost_while_paused_is_shown() -> None:
    async with console() as seen:
        await seen.press("p")
        await seen.hear(Unavailable("refused"))
        assert "no connection" in seen.lines[0]


async def test_events_before_the_first_snapshot_are_shown_too() -> None:
    old = tuple(Event(seq, NOW - 1000 + seq, "old", f"worker/old-{seq}", "happened") for seq in range(-9, 0))
    async with console(history=old) as seen:
        await seen.command("events")
        await seen.until(lambda: len(seen.app.view().events) == 14)
        await seen.hear(snapshot(NOW + 1))
        assert "worker/old--9" in seen.text


async def test_a_request_that_is_not_listed_any_more_stays_readable() -> None:
    async with console() as seen:
        await seen.command("request req-4fa")
        assert "✓ stop  req-4fa" in seen.text
        await seen.hear(snapshot(NOW + 9, requests=()))
        assert "no longer listed by the platform" in seen.text
        assert "✓ stop  req-4fa" in seen.text


async def test_what_was_never_known_says_so() -> None:
    async with console() as seen:
        await seen.command("request nobody")
        assert "no request nobody is known" in seen.text
        await seen.command("worker nobody")
        assert "worker nobody does not exist" in seen.text


async def test_a_worker_that_is_gone_stays_readable() -> None:
    async with console() as seen:
        await seen.press("enter")
        await seen.hear(snapshot(NOW + 1, workers=()))
        assert "smollm2-1 is gone: this is how it was last seen" in seen.text
        await seen.press("escape")
        assert seen.app.screen.query_one("#workers", Table).current is None
        assert "no worker yet" in seen.text


async def test_news_that_come_while_the_console_ends_hurt_nobody() -> None:
    async with console() as seen:
        await seen.press("ctrl+d")
        for second in range(20):
            seen.app.post_message(Heard(snapshot(NOW + second, workers=second)))
            seen.app.post_message(Told(f"done {second}"))
        seen.app.exit(0)
    assert seen.app.return_value == 0


async def test_paints_come_no_faster_than_asked() -> None:
    platform = MemoryPlatform()
    now = [1000.0]
    app = ConsoleApp(platform, platform, look=RICH_LOOK, paint_s=3600.0, silence_s=1e6, clock=lambda: now[0])
    async with app.run_test() as pilot:
        seen = Console(app, platform, pilot, now)
        await seen.hear(snapshot(NOW))
        table = app.screen.query_one("#workers", Table)
        painted = table._view
        now[0] += 3599.0
        await seen.hear(snapshot(NOW + 1))
        assert table._view is painted
        now[0] += 1.0
        await seen.hear(snapshot(NOW + 2))
        assert table._view is not painted
