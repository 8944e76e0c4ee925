"""Every key, on the screens where it does something."""

from __future__ import annotations

from dataclasses import replace

import pytest

from console.tui.app import ENDS, STAYS
from console.tui.screens.confirm import ConfirmScreen
from console.tui.screens.deck_screen import DeckScreen
from console.tui.screens.help import HelpScreen
from console.tui.screens.scale import ScaleScreen
from console.tui.widgets.log_view import LogView
from console.tui.widgets.table import Table
from control_plane.contracts.fleet import Event
from tests.snapshots.memory import NOW, snapshot
from tests.unit.console.tui.harness import Console, console


def route(seen: Console) -> str:
    assert isinstance(seen.app.screen, DeckScreen)
    return "/".join(part for part in (seen.app.screen.route.view, seen.app.screen.route.id) if part)


def table(seen: Console, name: str) -> Table[object]:
    return seen.app.screen.query_one(f"#{name}", Table)


async def test_the_first_screen_is_the_system() -> None:
    async with console() as seen:
        assert route(seen) == "workers"
        for words in (
            "InferDeck ▸ system",
            "● live",
            "clients",
            "gateway ×1",
            "router",
            "pool smollm2",
            "tokens/s as they",
        ):
            assert words in seen.text
        for words in ("smollm2-1", "smollm2-2", "restarted, ready after 3.3 s", "100%┤", "^d drain"):
            assert words in seen.text


async def test_moving() -> None:
    async with console(first=snapshot(workers=3)) as seen:
        for key, at in (
            *(("j", 1), ("j", 2), ("j", 2), ("k", 1), ("up", 0), ("k", 0), ("down", 1), ("G", 2), ("g", 0)),
            *(("end", 2), ("home", 0), ("pagedown", 2), ("pageup", 0)),
        ):
            await seen.press(key)
            assert table(seen, "workers").current == f"smollm2-{at + 1}", key


async def test_a_row_leads_to_its_engine_and_to_why_it_went_there() -> None:
    async with console(first=snapshot(requests=2)) as seen:
        await seen.press("j", "e")
        assert route(seen) == "engine/smollm2-2"
        await seen.command("requests")
        chosen = table(seen, "requests").current
        await seen.press("w")
        assert route(seen) == f"explain/{chosen}"


async def test_enter_opens_and_escape_goes_back() -> None:
    async with console() as seen:
        await seen.press("j", "enter")
        assert route(seen) == "worker/smollm2-2"
        await seen.press("escape")
        assert route(seen) == "workers"
        assert table(seen, "workers").current == "smollm2-2"
        await seen.press("escape")
        assert route(seen) == "workers"


async def test_escape_on_a_base_view_goes_to_the_first_one() -> None:
    async with console() as seen:
        await seen.command("events")
        assert route(seen) == "events"
        await seen.press("escape")
        assert route(seen) == "workers"


async def test_minus_is_the_view_before() -> None:
    async with console() as seen:
        await seen.command("requests")
        await seen.press("minus")
        assert route(seen) == "workers"
        await seen.press("minus")
        assert route(seen) == "requests"


async def test_a_request_and_its_worker() -> None:
    async with console() as seen:
        await seen.command("requests")
        await seen.press("enter")
        assert route(seen) == "request/req-1388"
        assert "where the time went" in seen.text
        await seen.press("enter")
        assert route(seen) == "worker/smollm2-1"
        await seen.press("escape", "escape")
        assert route(seen) == "requests"


async def test_opening_what_is_open_already_closes_what_lies_on_it() -> None:
    async with console() as seen:
        await seen.press("enter", "enter", "enter")
        assert route(seen) == "worker/smollm2-1"
        await seen.press("escape")
        assert route(seen) == "workers"


async def test_a_running_only() -> None:
    async with console() as seen:
        await seen.command("requests")
        assert "req-4fa" in seen.text
        await seen.press("a")
        assert "req-4fa" not in seen.text
        assert "running only" in seen.text
        await seen.press("a")
        assert "req-4fa" in seen.text


async def test_space_marks_and_escape_unmarks() -> None:
    async with console(first=snapshot(workers=3)) as seen:
        await seen.press("space")
        assert table(seen, "workers").current == "smollm2-2"
        await seen.press("space")
        assert table(seen, "workers").selection == ["smollm2-1", "smollm2-2"]
        assert seen.text.count("▌") == 2
        await seen.press("escape")
        assert table(seen, "workers").selection == ["smollm2-3"]
        assert "▌" not in seen.text


async def test_a_mark_goes_with_what_it_was_on() -> None:
    async with console(first=snapshot(workers=3)) as seen:
        await seen.press("space")
        now = snapshot(NOW + 1, workers=3)
        await seen.hear(replace(now, workers=now.workers[1:]))
        assert table(seen, "workers").marked == frozenset()


async def test_the_cursor_stays_with_its_row_when_rows_move() -> None:
    async with console(first=snapshot(workers=3)) as seen:
        await seen.press("j")
        now = snapshot(NOW + 1, workers=3)
        await seen.hear(replace(now, workers=now.workers[::-1]))
        assert table(seen, "workers").current == "smollm2-2"
        await seen.hear(replace(now, workers=now.workers[2:]))
        assert table(seen, "workers").current == "smollm2-3"


async def test_the_filter_is_text_and_not_a_pattern() -> None:
    async with console() as seen:
        await seen.command("requests")
        await seen.type("/138[")
        assert table(seen, "requests").shown == []
        assert "no row contains '138['" in seen.text
        await seen.press("backspace", "c", "enter")
        assert table(seen, "requests").shown == ["req-138c"]
        assert "/138c" in seen.lines[0]
        await seen.press("escape")
        assert len(table(seen, "requests").shown) == 11


async def test_escape_in_the_filter_takes_it_off() -> None:
    async with console() as seen:
        await seen.type("/-2")
        assert table(seen, "workers").shown == ["smollm2-2"]
        await seen.press("escape")
        assert table(seen, "workers").shown == ["smollm2-1", "smollm2-2"]
        assert table(seen, "workers").has_focus


async def test_a_filter_can_be_changed() -> None:
    async with console() as seen:
        await seen.type("/smollm2-1")
        await seen.press("enter")
        await seen.press("slash", "backspace", "2", "enter")
        assert table(seen, "workers").shown == ["smollm2-2"]


async def test_commands_that_go_somewhere() -> None:
    async with console() as seen:
        for line, at in (
            ("requests", "requests"),
            ("workers", "workers"),
            ("rq", "requests"),
            ("pools", "pools"),
            ("events", "events"),
            ("models", "pools"),
            ("logs", "logs/control-plane"),
            ("logs worker/smollm2-2", "logs/worker/smollm2-2"),
            ("worker smollm2-2", "worker/smollm2-2"),
            ("request req-4fa", "request/req-4fa"),
        ):
            await seen.command(line)
            assert route(seen) == at


async def test_a_wrong_command_says_what_would_be_right() -> None:
    async with console() as seen:
        await seen.command("fly")
        assert "no command 'fly'" in seen.text
        await seen.command("scale smollm2")
        assert ":scale POOL=N" in seen.text
        assert "no command 'fly'" not in seen.text, "it has been put right"
        await seen.command("drain nobody")
        assert "worker nobody does not exist" in seen.text


async def test_tab_completes_and_up_recalls() -> None:
    async with console() as seen:
        await seen.type(":dr")
        await seen.press("tab")
        assert seen.lines[-1].startswith(": drain ")
        assert "smollm2-1  smollm2-2" in seen.lines[-2]
        await seen.press("tab")
        assert seen.lines[-1].strip() == ": drain smollm2-"
        await seen.press("tab")
        assert "drain smollm2-1" in seen.lines[-1]
        await seen.press("tab")
        assert "drain smollm2-2" in seen.lines[-1]
        await seen.press("escape")
        await seen.type(":events")
        await seen.press("enter")
        assert route(seen) == "events"
        await seen.press("colon", "up")
        assert seen.lines[-1].startswith(": events")
        await seen.press("down")
        assert seen.lines[-1].strip() == ":"


async def test_escape_leaves_the_command_line() -> None:
    async with console() as seen:
        await seen.type(":quit")
        await seen.press("escape")
        assert route(seen) == "workers"
        assert "^d drain" in seen.lines[-1]
        await seen.press("j")
        assert table(seen, "workers").current == "smollm2-2"


async def test_a_narrow_screen_names_the_keys_that_end_something() -> None:
    async with console(size=(80, 24)) as seen:
        await seen.command("worker smollm2-1")
        assert all(words in seen.lines[-1] for words in ("^d drain", "^x cancel", "? help"))


async def test_order_keys_do_nothing_while_one_types() -> None:
    async with console() as seen:
        await seen.press("colon", "ctrl+s", "ctrl+d", "ctrl+o", "ctrl+u", "ctrl+x")
        assert not isinstance(seen.app.screen, ConfirmScreen | ScaleScreen)


async def test_help_shows_keys_commands_and_shapes() -> None:
    async with console(size=(100, 60)) as seen:
        await seen.press("question_mark")
        assert isinstance(seen.app.screen, HelpScreen)
        for words in ("ctrl-d", ":scale POOL=N", "KV cache from", "? lost"):
            assert words in seen.text
        assert STAYS in seen.words
        await seen.press("escape")
        assert route(seen) == "workers"


async def test_help_says_it_where_the_platform_ends_with_the_console() -> None:
    async with console(size=(100, 60), leaving=ENDS) as seen:
        await seen.press("question_mark")
        assert ENDS in seen.words
        assert "the platform stays" not in seen.words


async def test_help_scrolls_where_it_does_not_fit() -> None:
    async with console() as seen:
        await seen.press("question_mark")
        assert "KV cache from" not in seen.text
        await seen.press(*("pagedown",) * 8)
        assert "KV cache from" in seen.text
        await seen.press("q")
        assert route(seen) == "workers"


@pytest.mark.parametrize("key", ["q", "ctrl+c", "ctrl+q"])
async def test_leaving(key: str) -> None:
    async with console() as seen:
        await seen.press(key)
        assert seen.app.return_value == 0
    assert seen.platform.closed


async def test_leaving_by_command() -> None:
    async with console() as seen:
        await seen.command("q")
        assert seen.app.return_value == 0


async def test_what_is_typed_faster_than_the_prompt_opens_goes_to_the_prompt() -> None:
    async with console() as seen:
        await seen.burst(":requests\r")
        await seen.until(lambda: route(seen) == "requests")
        assert seen.app.return_value is None
        await seen.burst("/qpj")
        assert "no row contains 'qpj'" in seen.text
        assert "paused" not in seen.lines[0]


async def test_q_is_a_letter_while_one_types() -> None:
    async with console() as seen:
        await seen.type("/q")
        assert seen.app.return_value is None


async def test_the_worker_screen_has_two_panes_on_a_low_screen() -> None:
    async with console(log=b"INFO one\nINFO two\n") as seen:
        await seen.press("enter")
        assert "req-1388" in seen.text
        assert "INFO two" not in seen.text
        await seen.press("tab")
        await seen.until(lambda: "INFO two" in seen.text)
        assert "req-1388" not in seen.text
        assert seen.app.screen.query_one(LogView).has_focus
        await seen.press("tab")
        assert "req-1388" in seen.text


async def test_the_worker_screen_shows_both_panes_on_a_high_one() -> None:
    async with console(size=(100, 44), log=b"INFO two\n") as seen:
        await seen.press("enter")
        await seen.until(lambda: "INFO two" in seen.text)
        assert "req-1388" in seen.text


async def test_the_plot_of_a_worker_has_several_spans() -> None:
    async with console() as seen:
        await seen.press("enter")
        assert "-2m" in seen.text
        await seen.press("right_square_bracket")
        assert "-5m" in seen.text
        await seen.press("left_square_bracket", "left_square_bracket")
        assert "-60s" in seen.text or "-1m" in seen.text


async def test_the_whole_log_of_a_worker() -> None:
    async with console(log=b"INFO two\n") as seen:
        await seen.press("enter", "ctrl+l")
        assert route(seen) == "logs/worker/smollm2-1"
        await seen.until(lambda: "INFO two" in seen.text)
        assert seen.platform.calls == [("logs", "smollm2-1")] * 2


async def test_events_lead_to_what_they_were_about() -> None:
    async with console() as seen:
        await seen.command("events")
        assert table(seen, "events").shown[0].endswith("/5")
        await seen.press("enter")
        assert route(seen) == "worker/smollm2-2"
        await seen.press("escape", "G", "enter")
        assert "there is nothing to open for control-plane/cp-1" in seen.text


async def test_events_of_a_pool_lead_to_the_pools() -> None:
    event = Event(9, NOW, "scaled", "pool/smollm2", "2 to 3")
    async with console(first=snapshot(events=(event,))) as seen:
        await seen.command("events")
        await seen.press("enter")
        assert route(seen) == "pools"


async def test_tab_goes_through_the_tables_of_the_pools() -> None:
    async with console() as seen:
        await seen.command("pools")
        focused = []
        for _ in range(4):
            focused.append(next(name for name in ("pools", "models", "gateways") if table(seen, name).has_focus))
            await seen.press("tab")
        assert focused == ["pools", "models", "gateways", "pools"]
        await seen.press("shift+tab")
        assert table(seen, "pools").has_focus
        for words in ("2 of 2", "smollm2-135m", "http://127.0.0.1:8080"):
            assert words in seen.text


async def test_a_click_moves_the_cursor() -> None:
    async with console() as seen:
        await seen.pilot.click(table(seen, "workers"), offset=(20, 2))
        await seen.settle()
        assert table(seen, "workers").current == "smollm2-2"
        await seen.pilot.click(table(seen, "workers"), offset=(20, 1), times=2)
        await seen.settle()
        assert route(seen) == "worker/smollm2-1"
