"""Runs against a scripted endpoint: what is started, what is measured, what is counted."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path

import pytest

from console.http import Endpoint
from console.load.plan import Plan
from console.load.report import live_line, summary, summary_lines
from console.load.runner import Run
from console.load.shape import Length
from console.load.tally import quantiles
from console.text import width
from tests.unit.console.conftest import Command
from tests.unit.console.openai_server import Call, Script, serving

LIMIT_S = 30.0


async def run(script: Script, plan: Plan, keys: tuple[str, ...] = ("k",), call_timeout_s: float = LIMIT_S) -> Run:
    async with serving(script) as server:
        made = Run(plan, Endpoint.parse(server.url), keys, call_timeout_s=call_timeout_s)
        async with asyncio.timeout(LIMIT_S):
            await made.go()
        return made


def answering(tokens: int) -> Script:
    return lambda call: call.answer(["x"] * tokens)


async def test_a_closed_loop_makes_every_call_with_its_concurrency() -> None:
    four = asyncio.Barrier(4)
    answered = itertools.count(1)

    async def script(call: Call) -> None:
        await four.wait()  # opens only when four calls run
        next(answered)
        await call.answer(["x"] * 5)

    tally = (await run(script, Plan("m", concurrency=4, requests=40, duration_s=0))).tally
    assert (tally.started, tally.ok, tally.failed, tally.running) == (40, 40, 0, 0)
    assert next(answered) == 41
    assert (tally.output_tokens, tally.prompt_tokens, tally.cached_tokens, tally.chunks) == (200, 280, 120, 200)
    assert (len(tally.ttft), len(tally.itl), len(tally.tpot), len(tally.e2e)) == (40, 160, 40, 40)
    assert tally.finish_reasons == {"stop": 40}


async def test_the_stopwatch_agrees_with_the_server_s_pace() -> None:
    async def script(call: Call) -> None:
        await asyncio.sleep(0.05)
        await call.answer(["x"] * 5, delay_s=0.02)

    tally = (await run(script, Plan("m", concurrency=1, requests=3, duration_s=0))).tally
    assert all(0.05 <= value < 5 for value in tally.ttft.values)
    assert sorted(tally.itl.values)[len(tally.itl) // 2] >= 0.019
    assert all(0.019 <= value < 5 for value in tally.tpot.values)
    assert all(value >= 0.15 for value in tally.e2e.values)


async def test_an_open_loop_starts_calls_by_the_clock_whatever_runs() -> None:
    hold = asyncio.Event()
    waiting = itertools.count(1)

    async def script(call: Call) -> None:
        if next(waiting) == 20:
            hold.set()
        await hold.wait()
        await call.answer(["x"])

    tally = (await run(script, Plan("m", rate=200.0, requests=20, duration_s=0, poisson=False))).tally
    assert (tally.ok, len(tally.late)) == (20, 20)


async def test_a_duration_ends_the_starting_of_calls_not_the_calls() -> None:
    tally = (await run(answering(2), Plan("m", concurrency=2, duration_s=0.2))).tally
    assert tally.ok == tally.started > 0
    tally = (await run(answering(2), Plan("m", rate=50.0, duration_s=0.2))).tally
    assert 0 < tally.ok == tally.started < 40


async def test_finish_lets_what_runs_end() -> None:
    third = asyncio.Event()
    number = itertools.count(1)

    async def script(call: Call) -> None:
        if next(number) == 3:
            third.set()
        await call.answer(["x"] * 3, delay_s=0.01)

    async with serving(script) as server, asyncio.timeout(LIMIT_S):
        made = Run(Plan("m", concurrency=3, duration_s=0), Endpoint.parse(server.url), ["k"])
        going = asyncio.create_task(made.go())
        await third.wait()
        made.finish()
        await going
    assert made.tally.ok == made.tally.started >= 3
    assert made.tally.running == 0


async def test_failures_are_counted_by_code_with_an_example() -> None:
    turn = itertools.count()

    async def script(call: Call) -> None:
        match next(turn) % 4:
            case 0:
                await call.answer(["x"])
            case 1:
                await call.error(429, "rate_limit_exceeded")
            case 2:
                await call.open_stream()
                await call.text("a")
                await call.event({"error": {"message": "gone", "code": "worker_lost"}})
                await call.end_stream(done=False)
            case _:
                call.writer.transport.abort()

    tally = (await run(script, Plan("m", concurrency=1, requests=8, duration_s=0))).tally
    assert tally.ok == 2
    assert dict(tally.errors) == {"429 rate_limit_exceeded": 2, "200 worker_lost": 2, "connection_lost": 2}
    assert tally.examples["200 worker_lost"] == "gone"


async def test_a_call_without_an_end_times_out() -> None:
    async def silent(call: Call) -> None:
        await call.open_stream()
        await asyncio.sleep(LIMIT_S)

    tally = (await run(silent, Plan("m", concurrency=1, requests=1, duration_s=0), call_timeout_s=0.1)).tally
    assert dict(tally.errors) == {"200 timeout": 1}


async def test_clients_that_leave_are_no_failures_and_their_tokens_count() -> None:
    async with serving(lambda call: call.answer(["x"] * 50, delay_s=0.005)) as server:
        made = Run(
            Plan("m", concurrency=2, requests=6, duration_s=0, cancel=1.0, output=Length(8, 8)),
            Endpoint.parse(server.url),
            ["k"],
        )
        async with asyncio.timeout(LIMIT_S):
            await made.go()
    assert (made.tally.cancelled, made.tally.ok, made.tally.failed) == (6, 0, 0)
    assert 6 <= made.tally.output_tokens < 6 * 50


async def test_plain_calls_can_be_left_too() -> None:
    plan = Plan("m", concurrency=2, requests=4, duration_s=0, cancel=1.0, stream=False)
    tally = (await run(lambda call: call.answer(["x"] * 10, delay_s=0.2), plan)).tally
    assert (tally.cancelled, tally.failed, len(tally.ttft)) == (4, 0, 0)


async def test_cancelling_a_run_drops_its_calls_and_keeps_the_tally() -> None:
    three = asyncio.Barrier(3)
    streaming = asyncio.Event()

    async def script(call: Call) -> None:
        await call.open_stream()
        await three.wait()
        streaming.set()
        await asyncio.sleep(LIMIT_S)

    async with serving(script) as server, asyncio.timeout(LIMIT_S):
        made = Run(Plan("m", concurrency=3, requests=3, duration_s=0), Endpoint.parse(server.url), ["k"])
        going = asyncio.create_task(made.go())
        await streaming.wait()
        going.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going
    assert (made.tally.running, made.tally.started, made.tally.ended) == (0, 3, 0)
    assert summary(made, ["k"])["requests"]["unfinished"] == 3


async def test_several_keys_take_turns_and_are_told_apart() -> None:
    async def script(call: Call) -> None:
        if call.headers["authorization"] == "Bearer b":
            await call.error(401, "invalid_api_key")
        else:
            await call.answer(["x"])

    done = await run(script, Plan("m", concurrency=2, requests=10, duration_s=0, keys=2), ("a", "b"))
    keys = summary(done, ["first", "second"])["keys"]
    assert [(k["key"], k["ok"], k["failed"]) for k in keys] == [("first", 5, 0), ("second", 0, 5)]
    assert any("second: 0 ok · 5 failed" in line for line in summary_lines(summary(done, ["first", "second"])))


async def test_the_summary_says_what_was_measured_and_the_live_line_fits() -> None:
    done = await run(answering(5), Plan("m", concurrency=4, requests=8, duration_s=0))
    data = summary(done, ["k"])
    json.dumps(data)
    assert data["ttft_s"]["count"] == 8
    assert data["ttft_s"]["p50"] <= data["ttft_s"]["p99"] <= data["ttft_s"]["max"]
    assert data["per_second"]["output_tokens"] == pytest.approx(40 / data["duration_s"])
    lines = summary_lines(data)
    assert "8 ok" in lines[2]
    assert [line.split()[0] for line in lines if line.strip().startswith(("TTFT", "ITL", "TPOT"))] == [
        "TTFT",
        "ITL",
        "TPOT",
    ]
    assert all(width(live_line(done, room)) <= room for room in (10, 40, 120))


async def test_chunks_that_came_together_have_no_gap_of_zero() -> None:
    done = await run(answering(5), Plan("m", concurrency=1, requests=1, duration_s=0))
    together = dict.fromkeys(("p50", "p90", "p99", "max"), 0.0)
    [line] = [
        line for line in summary_lines(summary(done, ["k"]) | {"itl_s": {**together, "count": 4}}) if "ITL" in line
    ]
    assert line.split() == ["ITL", *["<0.01", "ms"] * 4, "4"]


def test_quantiles_are_nearest_rank() -> None:
    assert quantiles([], 0.5, 0.9) == [None, None]
    assert quantiles([3.0], 0.01, 0.99) == [3.0, 3.0]
    assert quantiles(list(map(float, range(1, 101))), 0.5, 0.9, 0.99, 1.0) == [50.0, 90.0, 99.0, 100.0]


@pytest.mark.parametrize("words", [("--rate", "nan"), ("--rate", "inf"), ("-o", "name"), ("--prompt-tokens", "many")])
def test_what_cannot_be_made_is_a_usage_error(inferdeck: Command, words: tuple[str, ...]) -> None:
    ran = inferdeck("load", "--url", "http://127.0.0.1:1", *words)
    assert (ran.code, ran.out) == (2, "")


def test_an_endpoint_that_is_not_there_is_exit_6(inferdeck: Command, home: Path) -> None:
    ran = inferdeck("load", "--url", "http://127.0.0.1:1/v1", "-n", "1")
    assert (ran.code, ran.out) == (6, "")
    assert ran.err.startswith("error: cannot reach http://127.0.0.1:1/v1")


async def test_callers_of_a_closed_loop_do_not_spin_on_what_fails_at_once() -> None:
    tally = (await run(lambda call: call.error(404, "model_not_found"), Plan("m", concurrency=2, duration_s=1.0))).tally
    assert 2 <= tally.failed == tally.started <= 2 * 4, "at 0, 0.1, 0.3 and 0.7 s, if the machine is idle"


async def test_the_pause_ends_with_the_plan_and_with_a_success() -> None:
    answers = itertools.count()

    async def script(call: Call) -> None:
        if next(answers) % 2:
            await call.answer(["x"])
        else:
            await call.error(503, "overloaded")

    made = await run(script, Plan("m", concurrency=1, requests=8, duration_s=0))
    assert (made.tally.ok, made.tally.failed) == (4, 4)
    assert made.elapsed_s >= 4 * 0.1, "and each pause is the first again"


async def test_nobody_waits_out_a_pause_when_no_further_call_is_to_start() -> None:
    refused = asyncio.Event()

    async def script(call: Call) -> None:
        await call.error(503, "overloaded")
        refused.set()

    async with serving(script) as server, asyncio.timeout(LIMIT_S):
        made = Run(Plan("m", concurrency=1, duration_s=0), Endpoint.parse(server.url), ["k"])
        going = asyncio.create_task(made.go())
        await refused.wait()
        made.finish()
        await going
    assert made.tally.failed == made.tally.started == 1


async def test_an_open_loop_goes_on_by_the_clock_whatever_fails() -> None:
    plan = Plan("m", rate=500.0, requests=50, duration_s=0, poisson=False)
    tally = (await run(lambda call: call.error(404, "model_not_found"), plan)).tally
    assert (tally.failed, tally.started) == (50, 50)
