"""The screens of decisions: the last ones, one request's, and the lines on a request's page."""

from __future__ import annotations

from dataclasses import replace

from control_plane.contracts.errors import Forbidden, Unavailable
from control_plane.contracts.hold import Hold
from tests.decisions import decision, moved, waited
from tests.snapshots.memory import NOW, snapshot
from tests.unit.console.tui.harness import Console, console

DECIDED = (
    decision(6, "req-1384"),
    waited(7, "req-1388"),
    decision(8, "req-1388", looks=4, waited_s=0.4),
    moved(9, "req-1388"),
)


async def opened(seen: Console, line: str, words: str) -> None:
    await seen.command(line)
    await seen.until(lambda: words in seen.text)


async def test_the_last_decisions_newest_first_and_the_new_ones_as_they_come() -> None:
    async with console(size=(160, 48), decided=DECIDED) as seen:
        await opened(seen, "decisions", "req-1384")
        assert "3 sent   2 smollm2-1   1 smollm2-2   1 had to wait" in seen.text
        rows = [line for line in seen.lines if "req-13" in line]
        assert ["smollm2-2" in rows[0], "smollm2-1" in rows[1], "queue" in rows[2], "req-1384" in rows[3]] == [True] * 4
        assert "best of 2: total 0.850, then smollm2-2 with 0.510" in rows[1]
        seen.platform.decision_queue.put_nowait((decision(10, "req-new"),))
        await seen.until(lambda: "req-new" in seen.text)
        assert "req-1384" in seen.text
        await seen.type("/req-new")
        assert "req-1384" not in seen.text


async def test_of_one_that_waits_only_the_newest_look_is_a_row() -> None:
    async with console(size=(160, 48), decided=(waited(1, looks=1),)) as seen:
        await opened(seen, "decisions", "1 had to wait")
        for number in (2, 3):
            seen.platform.decision_queue.put_nowait((waited(number, looks=number),))
        seen.platform.decision_queue.put_nowait((decision(4, looks=4),))
        await seen.until(lambda: "1 sent" in seen.text)
        assert "1 had to wait" in seen.text


async def test_a_pause_freezes_the_rows() -> None:
    async with console(size=(160, 48), decided=DECIDED) as seen:
        await opened(seen, "decisions", "req-1384")
        await seen.press("p")
        seen.platform.decision_queue.put_nowait((decision(10, "req-new"),))
        await seen.until(lambda: seen.platform.decision_queue.empty())
        assert "req-new" not in seen.text
        await seen.press("p")
        await seen.until(lambda: "req-new" in seen.text)


async def test_what_cannot_be_told_is_said() -> None:
    async with console(decided=Forbidden("ListDecisions needs the role viewer")) as seen:
        await opened(seen, "decisions", "ListDecisions needs the role viewer")
        assert "– sent" in seen.text


async def test_nobody_asks_for_decisions_that_are_not_looked_at() -> None:
    async with console(decided=DECIDED) as seen:
        assert seen.app._decision_feed.running is None
        await opened(seen, "decisions", "req-1384")
        asking = seen.app._decision_feed.running
        assert asking is not None
        await seen.command("workers")
        assert seen.app._decision_feed.running is None
        assert asking.is_cancelled or asking.is_finished


async def test_enter_tells_why_and_why_not() -> None:
    async with console(first=snapshot(NOW + 1), size=(160, 48), decided=DECIDED) as seen:
        await opened(seen, "decisions", "req-1384")
        await seen.press("enter")
        await seen.until(lambda: "an operator keeps new requests away from it" in seen.text)
        assert "attempt 2 ▶ smollm2-2" in seen.text
        assert "goes on after 12 tokens" in seen.text
        assert "0.700×2" in seen.text
        picked = next(line for line in seen.lines if "went here" in line)
        assert "smollm2-2" in picked
        await seen.press("j")
        await seen.until(lambda: "not smollm2-1: tried: it has lost or failed this very request before" in seen.text)
        await seen.press("G")
        await seen.until(lambda: "looked 3 times, last after 400 ms" in seen.text)
        assert "attempt 1 ▶ the queue" in seen.text
        await seen.press("g", "enter")
        assert "worker ▸ smollm2" in seen.lines[0]
        await seen.press("escape", "r")
        assert "request ▸ req-1388" in seen.lines[0]


async def test_the_page_of_a_request_says_why_it_is_where_it_is() -> None:
    async with console(first=snapshot(NOW + 1), size=(160, 48), decided=DECIDED) as seen:
        await opened(seen, "request req-1388", "why there")
        assert "before that: the queue, smollm2-1" in seen.text
        assert "not smollm2-3  cordoned: an operator keeps new requests away from it" in seen.text
        await seen.press("w")
        assert "explain ▸ req-1388" in seen.lines[0]


async def test_what_kept_it_waiting_is_on_both_pages() -> None:
    hold = Hold("busy", 0.01, 2.1, True, "paid", "busy", 0.83, 3, 12)
    first = snapshot(NOW + 1)
    held = tuple(replace(each, holds=(hold,) if each.id == "req-1388" else ()) for each in first.requests)
    words = "waited 2.10 s: its model was busy (83%), where tier paid waits; 3rd of 12 when it joined"
    async with console(first=replace(first, requests=held), size=(160, 48), decided=DECIDED) as seen:
        await opened(seen, "request req-1388", "why it waited")
        assert words in seen.text
        await opened(seen, "explain req-1388", f"queue: {words}")


async def test_one_that_only_waits_so_far_is_explained_by_that() -> None:
    hold = Hold("full", 0.01, 2.1, position=1, queued=1)
    first = snapshot(NOW + 1)
    held = tuple(replace(each, holds=(hold,) if each.id == "req-1388" else ()) for each in first.requests)
    async with console(first=replace(first, requests=held), size=(160, 48), decided=()) as seen:
        await opened(seen, "explain req-1388", "queue: has waited 2.10 s: its model was full")
        assert "asking the routers" not in seen.text


async def test_decisions_that_are_gone_are_said_to_be() -> None:
    gone = Unavailable("gateway/g1 knows why request/req-1388 went where it went, and is away")
    async with console(first=snapshot(NOW + 1), size=(160, 48), decided=gone) as seen:
        await opened(seen, "request req-1388", gone.message)
        await opened(seen, "explain req-1388", gone.message)
        assert "no endpoint" in seen.text


async def test_nothing_in_a_decision_is_obeyed() -> None:
    hostile = decision(9, "req-1388", chosen="[red]x\x1b[0m", model="[/]m\x1b[31m", profile="p\x07")
    async with console(first=snapshot(NOW + 1), size=(160, 48), decided=(hostile,)) as seen:
        await opened(seen, "decisions", "[red]x\\x1b[0m")
        await seen.press("enter")
        await seen.until(lambda: "[/]m\\x1b[31m" in seen.text)
        assert "\x1b" not in seen.text
