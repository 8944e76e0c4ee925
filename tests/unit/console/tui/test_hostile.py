"""Names, prompts and messages that were written to hurt: shown, and nothing more."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from control_plane.contracts.access import KeyList, KeySpec, KeyView
from control_plane.contracts.fleet import (
    Event,
    GatewayView,
    ModelView,
    Pool,
    RequestPhase,
    RequestView,
    Snapshot,
    Stage,
    WorkerPhase,
    WorkerView,
)
from tests.snapshots.memory import NOW, request, snapshot, worker
from tests.unit.console.tui.harness import Console, console

HOSTILE = ("[/", "[b +", "[link=x]y[/link]", "[@click=app.quit]x[/]", "\x1b[31mred", "a\nb", "\u202eabc", "$(x)", "")


def check(seen: Console) -> None:
    width = seen.app.size.width
    for strip in seen.app.screen._compositor.render_strips(seen.app.size):
        assert strip.cell_length == width
        assert strip.text.isprintable()
        assert not any(segment.style and segment.style.link for segment in strip)


def named(name: str) -> Snapshot:
    view = worker(name or "x", pool=name, reason=name)
    assert view.info is not None
    assert view.info.model is not None
    info = replace(view.info, model=replace(view.info.model, name=name, dtype=name), engine=name, device=name)
    call = request(
        name or "r",
        name,
        model=name,
        key_id=name,
        reason=name,
        api=name,
        gateway_id=name,
        stages=(Stage(name, 0.0, 1.0),),
    )
    return snapshot(
        workers=(replace(view, info=info),),
        requests=(call,),
        pools=(Pool(name, name, name, 1, source=name),),
        models=(ModelView(name, name, name, engine=name),),
        events=(Event(HOSTILE.index(name) if name in HOSTILE else 99, NOW + 99, name, f"worker/{name}", name, name),),
        gateways=(GatewayView(name, 1, name, True),),
    )


def _says(seen: Console, words: str) -> bool:
    return words in seen.text


async def test_hostile_names_are_shown_literally_everywhere() -> None:
    async with console(size=(200, 50), place="[/place", log="\n".join(HOSTILE).encode()) as seen:
        for name in HOSTILE:
            await seen.hear(named(name))
            seen.platform.keys_there = KeyList((KeyView("key-1", "sk", KeySpec(name), NOW),), NOW)
            shown = name.replace("\x1b", "\\x1b").replace("\n", "\\n").replace("\u202e", "\\u202e")
            for line in ("requests", "pools", "events", "keys", f"worker {name}x", f"logs worker/{name}", "workers"):
                await seen.command(line)
                if line == "keys":
                    await seen.until(partial(_says, seen, shown))
                check(seen)
                assert shown in seen.text
            for keys in (("ctrl+d",), ("escape", "ctrl+s"), ("escape",)):
                await seen.press(*keys)
                check(seen)
            await seen.command("requests")
            await seen.press("ctrl+x")
            check(seen)
            assert shown in seen.text
            await seen.press("escape", "enter")
            check(seen)
            assert shown in seen.text


async def test_an_opening_bracket_in_the_filter() -> None:
    async with console(first=named("[b +")) as seen:
        await seen.type("/[")
        check(seen)
        assert "[b +" in seen.text
        await seen.type("/")
        assert "no row contains '[/'" in seen.text


async def test_a_command_of_markup() -> None:
    async with console() as seen:
        await seen.type(":[red]")
        check(seen)
        await seen.press("enter")
        assert "no command '[red]'" in seen.text
        check(seen)


names = st.text(max_size=24)
numbers = st.floats(allow_nan=True, allow_infinity=True)
counts = st.integers(0, 2**40)


@st.composite
def workers(draw: st.DrawFn) -> WorkerView:
    view = worker("w")
    assert view.load is not None
    assert view.info is not None
    load = replace(
        view.load,
        kv_usage=draw(numbers),
        tokens_per_s=draw(numbers),
        running=draw(counts),
        rss_bytes=draw(counts),
        prompt_tokens=draw(counts),
    )
    return replace(
        view,
        id=draw(names),
        pool=draw(names),
        reason=draw(names),
        phase=draw(st.sampled_from(WorkerPhase)),
        cordoned=draw(st.booleans()),
        heartbeat_unix=draw(st.one_of(st.just(NOW), numbers)),
        phase_since_unix=draw(numbers),
        restart_unix=draw(numbers),
        load=draw(st.one_of(st.none(), st.just(load))),
        info=draw(st.one_of(st.none(), st.just(replace(view.info, engine=draw(names), started_unix=draw(numbers))))),
        in_flight=draw(counts),
    )


@st.composite
def requests(draw: st.DrawFn) -> RequestView:
    return replace(
        request("r"),
        id=draw(names),
        model=draw(names),
        worker_id=draw(names),
        key_id=draw(names),
        reason=draw(names),
        phase=draw(st.sampled_from(RequestPhase)),
        arrival_unix=draw(st.floats(-1e12, 1e12)),
        duration_s=draw(st.floats(-1e9, 1e9)),
        ttft_s=draw(numbers),
        output_tokens=draw(counts),
        stages=tuple(Stage(draw(names), draw(numbers), draw(numbers)) for _ in range(2)),
    )


@st.composite
def moments(draw: st.DrawFn) -> tuple[Snapshot, tuple[int, int]]:
    changes: dict[str, Any] = {
        "pools": tuple(Pool(draw(names), draw(names), draw(names), draw(counts)) for _ in range(2)),
        "models": (ModelView(draw(names), draw(names)),),
        "gateways": (
            GatewayView(
                draw(names), 1, draw(names), draw(st.booleans()), draw(numbers), NOW, responses={429: draw(counts)}
            ),
        ),
        "events": tuple(
            Event(n, draw(st.floats(-1e12, 1e12)), draw(names), draw(names), draw(names)) for n in range(2)
        ),
    }
    some_workers = tuple(draw(st.lists(workers(), max_size=4)))
    some_requests = tuple(draw(st.lists(requests(), max_size=5)))
    size = (draw(st.integers(1, 180)), draw(st.integers(1, 50)))
    return snapshot(NOW, some_workers, some_requests, **changes), size


@given(st.lists(moments(), min_size=2, max_size=2))
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
def test_whatever_the_platform_says_is_drawn_within_the_lines(said: list[tuple[Snapshot, tuple[int, int]]]) -> None:
    async def visit() -> None:
        async with console(size=(100, 30)) as seen:
            for moment, size in said:
                await seen.hear(moment)
                await seen.pilot.resize_terminal(*size)
                for line in ("workers", "requests"):
                    await seen.command(line)
                    check(seen)
                    await seen.press("enter", "ctrl+x")
                    check(seen)
                    await seen.press("escape")

    asyncio.run(visit())
