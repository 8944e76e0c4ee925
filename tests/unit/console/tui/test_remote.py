"""The live feed, against an operators' API over gRPC."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from console.home import Home, Unreachable
from console.tui.app import ConsoleApp, run
from console.tui.collector import closing
from console.tui.remote import Remote
from console.tui.render.look import RICH_LOOK
from control_plane.contracts.errors import NotFound, Unauthenticated
from tests.unit.console.conftest import write_state
from tests.unit.console.fake_operator import FakeOperator, request, serve
from tests.unit.console.tui.harness import Console


async def test_it_tells_what_the_platform_tells(home: Path, operator: FakeOperator) -> None:
    remote = Remote(home)
    async with closing(remote.watch()) as stream:
        snapshot = await asyncio.wait_for(anext(stream), 10)
        assert snapshot == operator.state
        operator.update(requests=(request("req-9"),))
        while snapshot.requests[0].id != "req-9":
            snapshot = await asyncio.wait_for(anext(stream), 10)
        async with closing(remote.events()) as events:
            assert [event.seq async for event in events] == [1, 2]
        async with closing(remote.logs("smollm2-1", 100)) as log:
            assert b"".join([piece async for piece in log]) == b"one\ntwo\n"
    await remote.close()


async def test_it_goes_by_the_key_that_was_named(home: Path, operator: FakeOperator) -> None:
    """Not by the home's own, which is an admin's."""
    named = replace(Home.find(home).target(), operator_key="op-inferdeck-of-a-viewer")
    remote = Remote(home, lambda: named)
    with pytest.raises(Unauthenticated):
        async with closing(remote.watch()) as stream:
            await asyncio.wait_for(anext(stream), 10)
    await remote.close()


async def test_orders_reach_the_platform(home: Path, operator: FakeOperator) -> None:
    remote = Remote(home)
    async with closing(remote.watch()) as stream:
        await asyncio.wait_for(anext(stream), 10)
        assert (await remote.cordon("smollm2-1", dry_run=True)).changed
        assert (await remote.cordon("smollm2-1")).message == "worker/smollm2-1 cordoned"
        assert (await remote.uncordon("smollm2-1")).changed
        assert (await remote.scale("smollm2", 3)).changed
        assert (await remote.cancel("req-1")).changed
        async with closing(remote.drain("smollm2-2")) as drain:
            assert [step.in_flight async for step in drain] == [4, 2, 0]
        with pytest.raises(NotFound, match="no worker named nobody"):
            await remote.cordon("nobody")
    assert operator.calls == [
        *("cordoned smollm2-1", "uncordoned smollm2-1", "scale smollm2 3", "cancel req-1", "drain smollm2-2 0")
    ]
    await remote.close()


def test_it_is_called_what_people_call_the_place(home: Path) -> None:
    assert Remote(home).place == str(home)
    assert Remote(home, place="10.0.0.5:8090").place == "10.0.0.5:8090"


async def test_before_it_is_connected_orders_cannot_go_anywhere(home: Path, operator: FakeOperator) -> None:
    with pytest.raises(Unreachable):
        await Remote(home).cordon("smollm2-1")


def test_without_a_platform_there_is_nothing_to_show(home: Path) -> None:
    with pytest.raises(Unreachable, match="no platform is running"):
        run(home, readonly=False)


async def test_a_platform_that_comes_back_elsewhere_is_found_again(home: Path) -> None:
    first, address = serve(FakeOperator())
    write_state(home, address)
    remote = Remote(home)
    app = ConsoleApp(remote, remote, look=RICH_LOOK, paint_s=0.0)
    async with app.run_test() as pilot:
        seen = Console(app, None, pilot)  # type: ignore[arg-type]
        await patiently(seen, "● live")
        assert "smollm2-2" in seen.text
        first.stop(None).wait()
        await patiently(seen, "✗ no connection")
        second, address = serve(FakeOperator())
        write_state(home, address)
        await patiently(seen, "● live")
        await seen.press("ctrl+d")
        await patiently(seen, "would drain worker/smollm2-1")
        await seen.press("y")
        await patiently(seen, "drain smollm2-1: nothing runs on it any more; it stays cordoned")
        await seen.press("enter", "tab")
        await patiently(seen, "the log ended")
        assert "two" in seen.text
    second.stop(None).wait()


async def patiently(seen: Console, words: str) -> None:
    """A real connection takes real time."""
    async with asyncio.timeout(30):
        while words not in seen.text:
            await asyncio.sleep(0.02)
            await seen.pilot.pause()
