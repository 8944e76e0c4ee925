"""Every way from an order key to what is done, and to what is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from console.tui.messages import Previewed
from console.tui.screens.confirm import ConfirmScreen
from console.tui.screens.deck_screen import DeckScreen
from console.tui.screens.scale import ScaleScreen
from control_plane.contracts.errors import Conflict, Unavailable
from control_plane.contracts.fleet import DrainProgress, Pool, RequestPhase
from tests.snapshots.memory import NOW, snapshot
from tests.unit.console.tui.harness import Console, console

CORDONED = replace(snapshot(), workers=(replace(snapshot().workers[0], cordoned=True), snapshot().workers[1]))


def asked(seen: Console) -> bool:
    return isinstance(seen.app.screen, ConfirmScreen)


async def told(seen: Console, words: str) -> None:
    await seen.until(lambda: words in seen.text)


async def test_drain_names_target_work_and_consequence_and_is_done() -> None:
    async with console() as seen:
        await seen.press("ctrl+d")
        for words in ("Drain worker smollm2-1", "KV ", "in flight", "those in flight finish", "1 other ready worker"):
            assert words in seen.words
        await told(seen, "would cordon smollm2-1 and wait for 3 requests")
        assert seen.platform.done == []
        await seen.press("y")
        assert not asked(seen)
        await seen.until(lambda: seen.platform.done == [("drain", "smollm2-1")])


async def test_the_progress_of_a_drain_is_shown_and_then_its_end() -> None:
    async with console() as seen:
        await seen.press("ctrl+d", "y")
        seen.platform.drain_queue.put_nowait(DrainProgress("smollm2-1", 3, ("req-1388", "req-138a", "req-138c")))
        await told(seen, "◔ drain smollm2-1: 3 in flight: req-1388, req-138a, req-138c")
        await seen.pass_time(600)
        seen.platform.drain_queue.put_nowait(DrainProgress("smollm2-1", 1, ("req-138c",)))
        await told(seen, "drain smollm2-1: 1 in flight: req-138c")
        seen.platform.drain_queue.put_nowait(DrainProgress("smollm2-1", 0, done=True))
        await told(seen, "✓ drain smollm2-1: nothing runs on it any more; it stays cordoned")
        await seen.pass_time(10)
        await seen.hear(snapshot(NOW + 1))
        assert "drain smollm2-1:" not in seen.text


async def test_a_drain_that_times_out_or_breaks() -> None:
    async with console() as seen:
        await seen.press("ctrl+d", "y")
        seen.platform.drain_queue.put_nowait(DrainProgress("smollm2-1", 2, ("a", "b"), timed_out=True))
        await told(seen, "✗ drain smollm2-1 timed out, 2 in flight: a, b; it stays cordoned")
        await seen.press("ctrl+d", "y")
        seen.platform.drain_queue.put_nowait(Unavailable("cannot reach the control plane"))
        await told(seen, "✗ drain smollm2-1: cannot reach the control plane")


@pytest.mark.parametrize("key", ["n", "escape"])
async def test_an_order_that_is_not_confirmed_is_not_done(key: str) -> None:
    async with console() as seen:
        await seen.press("ctrl+d", key)
        assert not asked(seen)
        await seen.settle()
        assert seen.platform.done == []


async def test_only_y_confirms() -> None:
    async with console() as seen:
        await seen.press("ctrl+d")
        for key in ("enter", "space", "ctrl+d", "j", "d", "Y", "tab"):
            await seen.press(key)
            assert asked(seen), key
        assert seen.platform.done == []


@pytest.mark.parametrize(
    ("key", "first", "call"),
    [
        ("ctrl+d", snapshot(), ("drain", "smollm2-1")),
        ("ctrl+o", snapshot(), ("cordon", "smollm2-1")),
        ("ctrl+u", CORDONED, ("uncordon", "smollm2-1")),
    ],
)
async def test_worker_orders(key: str, first: object, call: tuple[str, ...]) -> None:
    async with console(first=first) as seen:  # type: ignore[arg-type]
        await seen.press(key)
        assert asked(seen)
        await seen.press("y")
        await seen.until(lambda: seen.platform.done == [call])


async def test_results_are_told() -> None:
    async with console() as seen:
        await seen.press("ctrl+o", "y")
        await told(seen, "✓ smollm2-1: cordon done")
        seen.platform.refuse = Conflict("smollm2-1 is being replaced")
        await seen.press("ctrl+d", "escape", "ctrl+o")
        await told(seen, "smollm2-1 is being replaced")
        await seen.press("y")
        await told(seen, "✗ cordon smollm2-1: smollm2-1 is being replaced")


async def test_an_order_without_a_point_is_refused_at_once() -> None:
    async with console() as seen:
        await seen.press("ctrl+u")
        assert not asked(seen)
        assert "worker smollm2-1 is not cordoned" in seen.text


async def test_the_target_is_the_one_at_the_key_press() -> None:
    async with console(first=snapshot(workers=3)) as seen:
        await seen.press("j", "ctrl+d")
        now = snapshot(NOW + 1, workers=3)
        await seen.hear(replace(now, workers=now.workers[::-1]))
        assert "Drain worker smollm2-2" in seen.text
        await seen.press("y")
        await seen.until(lambda: seen.platform.done == [("drain", "smollm2-2")])


async def test_a_target_that_went_away_meanwhile() -> None:
    async with console() as seen:
        await seen.press("ctrl+d")
        now = snapshot(NOW + 1)
        await seen.hear(replace(now, workers=now.workers[1:]))
        assert "worker smollm2-1 is gone" in seen.text
        assert "y drain" not in seen.text
        await seen.press("y")
        assert asked(seen)
        await seen.settle()
        assert seen.platform.done == []


async def test_a_target_that_was_replaced_meanwhile() -> None:
    async with console() as seen:
        await seen.press("ctrl+d")
        now = snapshot(NOW + 1)
        info = now.workers[0].info
        assert info is not None
        other = replace(now.workers[0], info=replace(info, instance_id="another"))
        await seen.hear(replace(now, workers=(other, now.workers[1])))
        assert "was replaced meanwhile" in seen.text
        await seen.press("y", "escape")
        await seen.settle()
        assert seen.platform.done == []


async def test_the_work_in_flight_is_counted_while_one_thinks() -> None:
    async with console() as seen:
        await seen.press("ctrl+d")
        assert "16 in flight" in seen.text
        now = snapshot(NOW + 1)
        busier = replace(now.workers[0], in_flight=29)
        await seen.hear(replace(now, workers=(busier, now.workers[1])))
        assert "29 in flight" in seen.text
        await seen.press("y")
        await seen.until(lambda: seen.platform.done == [("drain", "smollm2-1")])


async def test_nothing_is_done_without_a_connection() -> None:
    async with console() as seen:
        await seen.press("ctrl+d")
        await seen.hear(Unavailable("connection refused"))
        assert "no connection to the platform" in seen.text
        await seen.press("y")
        assert asked(seen)
        await seen.settle()
        assert seen.platform.done == []


async def test_while_paused_the_order_is_checked_against_what_is_really_there() -> None:
    async with console() as seen:
        await seen.press("p")
        now = snapshot(NOW + 1)
        await seen.hear(replace(now, workers=now.workers[1:]))
        assert "smollm2-1" in seen.text
        await seen.press("ctrl+d")
        assert "worker smollm2-1 is gone" in seen.text
        await seen.press("y", "escape")
        await seen.settle()
        assert seen.platform.done == []


async def test_draining_the_last_one_warns() -> None:
    async with console(first=snapshot(workers=1)) as seen:
        await seen.press("ctrl+d")
        assert "▲ nobody is left to serve smollm2-135m" in seen.words


async def test_several_targets_ask_for_their_number() -> None:
    async with console(first=snapshot(workers=3)) as seen:
        await seen.press("space", "space", "ctrl+d")
        assert "Drain 2 workers" in seen.text
        assert "type 2 to drain 2 workers" in seen.text
        await seen.press("y", "enter")
        assert "nothing done: that is not 2" in seen.text
        assert seen.platform.done == []
        await seen.press("backspace", "2", "enter")
        await seen.until(lambda: seen.platform.done == [("drain", "smollm2-1"), ("drain", "smollm2-2")])


async def test_several_targets_of_which_one_went_away() -> None:
    async with console(first=snapshot(workers=3)) as seen:
        await seen.press("space", "space", "ctrl+d")
        now = snapshot(NOW + 1, workers=3)
        await seen.hear(replace(now, workers=now.workers[1:]))
        assert "worker smollm2-1 is gone" in seen.text
        await seen.press("2", "enter")
        await seen.settle()
        assert asked(seen)
        assert seen.platform.done == []


async def test_cancel_a_request() -> None:
    async with console() as seen:
        await seen.command("requests")
        await seen.press("j", "ctrl+x")
        for words in ("Cancel request req-1389", "29 tokens out", "request_cancelled"):
            assert words in seen.text
        await seen.press("y")
        await seen.until(lambda: seen.platform.done == [("cancel", "req-1389")])
        await told(seen, "✓ req-1389: cancel done")


async def test_cancel_a_request_that_ended_meanwhile() -> None:
    async with console() as seen:
        await seen.command("requests")
        await seen.press("ctrl+x")
        now = snapshot(NOW + 1)
        ended = replace(now.requests[0], phase=RequestPhase.FINISHED, reason="stop")
        await seen.hear(replace(now, requests=(ended, *now.requests[1:])))
        assert "request req-1388 has ended already" in seen.text
        await seen.press("y", "escape")
        await seen.settle()
        assert seen.platform.done == []


async def test_an_ended_request_cannot_be_cancelled() -> None:
    async with console() as seen:
        await seen.command("requests")
        await seen.press("G", "ctrl+x")
        assert not asked(seen)
        assert "request req-4f8 has ended already" in seen.text


async def test_cancel_from_the_page_of_a_request_and_of_a_worker() -> None:
    async with console() as seen:
        await seen.command("request req-1389")
        await seen.press("ctrl+x", "y")
        await seen.until(lambda: seen.platform.done == [("cancel", "req-1389")])
        await seen.command("worker smollm2-1")
        await seen.press("ctrl+x")
        assert "Cancel request req-1388" in seen.text
        await seen.press("escape", "tab", "ctrl+x")
        assert not asked(seen)


async def test_worker_orders_from_its_page() -> None:
    async with console() as seen:
        await seen.command("worker smollm2-2")
        await seen.press("ctrl+d")
        assert "Drain worker smollm2-2" in seen.text
        await seen.press("escape", "ctrl+s")
        assert "Scale pool smollm2" in seen.text


async def test_scale_asks_how_many_and_then_confirms() -> None:
    async with console() as seen:
        await seen.press("ctrl+s")
        assert isinstance(seen.app.screen, ScaleScreen)
        assert "desired 2, 2 observed, 2 ready" in seen.text
        await seen.press("up", "up", "down", "enter")
        assert asked(seen)
        assert "Scale pool smollm2 from 2 to 3" in seen.text
        assert "1 worker started" in seen.text
        await seen.press("y")
        await seen.until(lambda: seen.platform.done == [("scale", "smollm2", 3)])


async def test_scale_takes_digits_and_nothing_else() -> None:
    async with console() as seen:
        await seen.press("ctrl+s", "backspace", "x", "full_stop", "5", "enter")
        assert "from 2 to 5" in seen.text


async def test_scale_to_where_it_is_does_nothing() -> None:
    async with console() as seen:
        await seen.press("ctrl+s", "enter")
        assert isinstance(seen.app.screen, DeckScreen)
        assert "pool smollm2 is at 2 already" in seen.text
        await seen.press("ctrl+s", "escape")
        await seen.press("ctrl+s", "backspace", "enter")
        assert isinstance(seen.app.screen, ScaleScreen)
        assert seen.platform.done == []


async def test_scale_in_says_what_it_touches() -> None:
    async with console() as seen:
        await seen.command("scale smollm2=0")
        assert "2 workers drained and stopped, the idlest first" in seen.text
        assert "26 on the whole pool" in seen.text or "27 on the whole pool" in seen.text
        assert "nobody is left" in seen.text
        await seen.press("y")
        await seen.until(lambda: seen.platform.done == [("scale", "smollm2", 0)])


async def test_a_pool_that_was_scaled_meanwhile() -> None:
    async with console() as seen:
        await seen.command("scale smollm2=3")
        await seen.hear(snapshot(NOW + 1, pools=(Pool("smollm2", "smollm2-135m", "vllm", 4),)))
        assert "pool smollm2 was scaled from 2 to 4 meanwhile" in seen.text
        await seen.press("y", "escape")
        await seen.settle()
        assert seen.platform.done == []


async def test_scale_from_the_pools() -> None:
    async with console() as seen:
        await seen.command("pools")
        await seen.press("ctrl+s")
        assert isinstance(seen.app.screen, ScaleScreen)


async def test_orders_by_command_are_confirmed_too() -> None:
    async with console() as seen:
        calls = (("drain", "smollm2-2"), ("cordon", "smollm2-2"), ("cancel", "req-1388"), ("scale", "smollm2", 1))
        for number, call in enumerate(calls):
            await seen.command("scale smollm2=1" if call[0] == "scale" else " ".join(map(str, call)))
            assert asked(seen)
            assert len(seen.platform.done) == number
            await seen.press("y")
            await seen.until(lambda: len(seen.platform.done) == number + 1)  # noqa: B023
        assert seen.platform.done == list(calls)


async def test_read_only_gives_no_orders() -> None:
    async with console(readonly=True, first=CORDONED) as seen:
        for key, verb in (("ctrl+d", "drain"), ("ctrl+o", "cordon"), ("ctrl+u", "uncordon"), ("ctrl+s", "scale")):
            await seen.press(key)
            assert isinstance(seen.app.screen, DeckScreen)
            assert f"read-only: no {verb} from here" in seen.text
        assert seen.platform.done == []


async def test_read_only_shows_itself_and_refuses_commands() -> None:
    async with console(readonly=True) as seen:
        assert "read-only" in seen.lines[0]
        assert "^d" not in seen.lines[-1]
        for line in ("drain smollm2-1", "scale smollm2=0", "cancel req-1388", "cordon smollm2-1"):
            await seen.command(line)
            assert isinstance(seen.app.screen, DeckScreen)
        await seen.command("requests")
        await seen.press("ctrl+x")
        assert isinstance(seen.app.screen, DeckScreen)
        assert seen.platform.done == []


async def test_orders_that_mean_nothing_here_say_so() -> None:
    async with console() as seen:
        await seen.command("events")
        await seen.press("ctrl+d")
        assert "no worker is selected" in seen.text
        await seen.press("ctrl+x")
        assert "no request is selected" in seen.text


async def test_a_preview_that_comes_late_is_not_taken_for_another_orders() -> None:
    async with console() as seen:
        await seen.press("ctrl+d")
        assert isinstance(seen.app.screen, ConfirmScreen)
        left = seen.app.screen.order
        await seen.press("escape", "j", "ctrl+d")
        await told(seen, "would cordon smollm2-2")
        seen.app.post_message(Previewed(left, "words about another worker"))
        await seen.settle()
        assert "words about another worker" not in seen.text
