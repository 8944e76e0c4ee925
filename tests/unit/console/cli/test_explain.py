"""``explain``, ``replay-decisions``, and the short form in ``describe``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from control_plane.contracts.decision import DecisionReplay, MovedView, RescoredView, WorkerShare
from control_plane.contracts.errors import NotFound, RequestTimeout, Unavailable
from control_plane.contracts.hold import Hold
from control_plane.contracts.routing import BUILT_IN, RoutingProfile
from tests.decisions import AT, candidate, decision, waited
from tests.unit.console.conftest import Command
from tests.unit.console.fake_operator import FakeOperator

SHARES = {"smollm2-1": WorkerShare(30, 22, 9000, 7000), "smollm2-2": WorkerShare(10, 18, 3000, 5000)}
MOVED = MovedView(7, "req-1", 1, AT, "smollm2-135m", "smollm2-1", "smollm2-2", 0.5, 0.75)
REPLAY = DecisionReplay(
    "least_load", BUILT_IN["least_load"], (RescoredView("g1", 40, 0, 8.0, (MOVED,), SHARES), RescoredView("g2", 0))
)


@pytest.fixture
def explained(operator: FakeOperator) -> FakeOperator:
    operator.decisions = {"req-1": (waited(), decision())}
    return operator


def test_a_table_for_every_look_and_a_line_for_every_other_endpoint(
    explained: FakeOperator, inferdeck: Command
) -> None:
    ran = inferdeck("explain", "request/req-1")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0].startswith("attempt 1 → the queue · ")
    assert lines[1] == "no worker could take it: 1 full; looked 3 times, last after 400 ms"
    assert lines[2] == "not smollm2-1: full: it holds 32 sequences of this router, and batches 16"
    assert lines[3] == ""
    assert lines[4].startswith("attempt 1 → smollm2-1 · ")
    assert lines[6] == "balanced: inflight_tokens × 2, kv_headroom × 1, queue_depth × 1; picker max"
    heading = lines[7].split()
    assert heading[:7] == ["ENDPOINT", "INFLIGHT_TOKENS", "×2", "QUEUE_DEPTH", "×1", "KV_HEADROOM", "×1"]
    assert lines[8].split() == [
        "▶",
        "smollm2-1",
        "0.900",
        "1.000",
        "0.600",
        "0.850",
        "2",
        "310",
        "40%",
        "0",
        "300",
        "ms",
    ]
    assert lines[9].split() == ["smollm2-2", "0.700", "0.250", "0.390", "0.510", "5", "812", "61%", "3", "300", "ms"]
    assert lines[10].startswith("not smollm2-2: total 0.510 against 0.850: more waiting in its engine, 3 against 0")
    assert lines[11] == "not smollm2-3: cordoned: an operator keeps new requests away from it"
    assert len(lines) == 12


def test_ids_as_the_api_gives_them_and_as_data(explained: FakeOperator, inferdeck: Command) -> None:
    told = json.loads(inferdeck("explain", "chatcmpl-req-1", "-o", "json").out)
    assert yaml.safe_load(inferdeck("explain", "req-1", "-o", "yaml").out) == told
    first, second = told["decisions"]
    assert (first["chosen"], first["candidates"]) == ("", [])
    assert second["by"] == {"weights": dict(BUILT_IN["balanced"].weights), "picker": "max", "temperature": 0.0}
    other = second["candidates"][1]
    assert other["scores"] == {"inflight_tokens": 0.7, "queue_depth": 0.25, "kv_headroom": 0.39}
    assert other["why_not"].startswith("total 0.510 against 0.850")
    assert second["why"].startswith("best of 2")
    assert inferdeck("explain", "req-1", "-o", "name").out == "decision/g1/6\ndecision/g1/7\n"


def test_many_endpoints_are_cut_short_unless_all_are_wanted(operator: FakeOperator, inferdeck: Command) -> None:
    many = tuple(candidate(f"w-{n}", total=0.85 - n / 100) for n in range(20))
    operator.decisions = {"req-1": (decision(candidates=many, chosen="w-19", more_candidates=5),)}
    out = inferdeck("explain", "req-1").out
    assert "w-11" in out
    assert "w-12" not in out
    assert "▶  w-19" in out
    assert "and 13 more that could have been picked" in out
    wide = inferdeck("explain", "req-1", "-o", "wide").out
    assert "w-18" in wide
    assert "and 5 more that could have been picked" in wide


def test_names_that_others_chose_are_shown_literally(operator: FakeOperator, inferdeck: Command) -> None:
    operator.decisions = {"req-1": (decision(model="m\x1b[31m", profile="p\x07"),)}
    out = inferdeck("explain", "req-1").out
    assert "m\\x1b[31m" in out
    assert "\x1b" not in out
    assert "\x07" not in out


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NotFound("the decisions are not kept any more"), 3),
        (Unavailable("gateway/g1 is away", hint="inferdeck get gateways"), 1),
        (RequestTimeout("no answer in time from g1"), 5),
    ],
)
def test_where_nobody_can_tell(operator: FakeOperator, inferdeck: Command, error: Exception, code: int) -> None:
    operator.no_decisions = error  # type: ignore[assignment]
    ran = inferdeck("explain", "req-1")
    assert (ran.code, ran.out) == (code, "")
    assert str(error) in ran.err
    described = inferdeck("describe", "request/req-1")
    assert described.code == 0
    assert f"why there   {error}" in described.out


def test_what_it_must_be_told(operator: FakeOperator, inferdeck: Command) -> None:
    assert inferdeck("explain").code == 2
    assert inferdeck("explain", "worker/smollm2-1").code == 2


def test_a_router_that_is_silent_is_named(explained: FakeOperator, inferdeck: Command) -> None:
    explained.silent = ("g2",)
    ran = inferdeck("explain", "req-1")
    assert ran.code == 0
    assert ran.err == "no answer in time from g2: there may be more\n"


def test_describe_has_the_short_form(explained: FakeOperator, inferdeck: Command) -> None:
    out = inferdeck("describe", "request/req-1").out
    assert "why there   nowhere: no worker could take it: 1 full; looked 3 times, last after 400 ms" in out
    assert "            smollm2-1: best of 2: total 0.850, then smollm2-2 with 0.510" in out
    assert "inferdeck explain req-1" in out
    assert len(json.loads(inferdeck("describe", "request/req-1", "-o", "json").out)["decisions"]) == 2


HOLD = Hold("busy", 0.01, 2.1, True, "paid", "busy", 0.83, 3, 12)
HELD = "waited 2.10 s: its model was busy (83%), where tier paid waits; 3rd of 12 when it joined"


def test_what_kept_it_waiting_comes_first(explained: FakeOperator, inferdeck: Command) -> None:
    explained.holds = {"req-1": (HOLD,)}
    lines = inferdeck("explain", "req-1").out.splitlines()
    assert lines[:2] == [f"queue · {HELD}", ""]
    assert lines[2].startswith("attempt 1 → the queue · ")
    [told] = json.loads(inferdeck("explain", "req-1", "-o", "json").out)["holds"]
    assert (told["reason"], told["position"], told["why"]) == ("busy", 3, HELD)


def test_one_that_only_waits_so_far(operator: FakeOperator, inferdeck: Command) -> None:
    operator.holds = {"req-1": (replace(HOLD, over=False),)}
    ran = inferdeck("explain", "req-1")
    assert (ran.code, ran.out.splitlines()[0]) == (0, f"queue · has {HELD}")


def test_describe_tells_it_too(operator: FakeOperator, inferdeck: Command) -> None:
    request = operator.state.requests[0]
    operator.state = replace(operator.state, requests=(replace(request, holds=(HOLD, HOLD)),))
    lines = inferdeck("describe", f"request/{request.id}").out.splitlines()
    assert [line.strip() for line in lines if HELD in line] == [f"queue       {HELD}", HELD]


def test_decisions_again(operator: FakeOperator, inferdeck: Command) -> None:
    operator.replayed = REPLAY
    ran = inferdeck("replay-decisions", "--profile", "least_load", "--last", "40")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0] == "8 of 40 decisions would have gone elsewhere under least_load"
    assert lines[2].split() == ["REQUEST", "ATTEMPT", "AT", "MODEL", "WAS", "WOULD", "TOTALS"]
    assert lines[3].split()[0] == "req-1"
    assert lines[3].split()[-5:] == ["smollm2-1", "smollm2-2", "0.500", "→", "0.750"]
    assert lines[5].split() == ["WORKER", "REQUESTS", "AGAIN", "TOKENS", "AGAIN"]
    assert lines[6].split() == ["smollm2-1", "30", "22", "9,000", "7,000"]
    assert "which nobody can know" in lines[-1]
    assert operator.calls == ["replay least_load {} max 0 40"]
    told = json.loads(inferdeck("replay-decisions", "--profile", "least_load", "-o", "json").out)
    assert told["routers"][0]["moved"][0]["would"] == "smollm2-2"
    assert inferdeck("replay-decisions", "--profile", "least_load", "-o", "name").out == "request/req-1\n"


def test_weights_are_read_and_checked_here(operator: FakeOperator, inferdeck: Command) -> None:
    by = RoutingProfile({"inflight_tokens": 2.0, "queue_depth": 1.0}, "softmax", 0.2)
    operator.replayed = replace(REPLAY, profile="", by=by)
    options = ("--weights", "queue_depth=1,inflight_tokens=2", "--picker", "softmax", "--temperature", "0.2")
    ran = inferdeck("replay-decisions", *options)
    assert ran.code == 0
    assert "8.0 of 40 decisions would have gone elsewhere under these weights on average, as it is drawn" in ran.out
    assert operator.calls == ["replay  {'inflight_tokens': 2.0, 'queue_depth': 1.0} softmax 0.2 512"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "Either --profile NAME or --weights"),
        (("--profile", "balanced", "--weights", "queue_depth=1"), "Either --profile NAME or --weights"),
        (("--weights", "queue_depth"), "is not SCORER=WEIGHT"),
        (("--weights", "queue_depth=nan"), "is not SCORER=WEIGHT"),
        (("--weights", "queue=1"), "--weights.weights.queue: unknown scorer"),
        (("--weights", "queue_depth=-1"), "above 0"),
        (("--weights", "queue_depth=1", "--picker", "best"), "there are max, softmax, round_robin"),
        (("--weights", "queue_depth=1", "--temperature", "1"), "only the picker softmax"),
        (("--profile", "balanced", "--picker", "max"), "go with --weights"),
        (("--profile", "balanced", "--last", "0"), ""),
    ],
)
def test_what_is_no_profile(operator: FakeOperator, inferdeck: Command, options: tuple[str, ...], words: str) -> None:
    ran = inferdeck("replay-decisions", *options)
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err
    assert operator.calls == []


def test_an_incomplete_replay_says_so(operator: FakeOperator, inferdeck: Command) -> None:
    view = replace(REPLAY.routers[0], partial=3)
    operator.replayed = replace(REPLAY, routers=(view,), silent=("g3",), errors={"g2": "too old"})
    ran = inferdeck("replay-decisions", "--profile", "least_load")
    assert ran.code == 5
    assert "3 decisions had more candidates than are kept" in ran.out
    assert "router g2: too old" in ran.err
    assert "no answer in time from g3" in ran.err


def test_with_no_decision_yet_nothing_is_made_up(operator: FakeOperator, inferdeck: Command) -> None:
    operator.replayed = DecisionReplay("balanced", BUILT_IN["balanced"], (RescoredView("g1", 0),))
    ran = inferdeck("replay-decisions", "--profile", "balanced")
    assert (ran.code, ran.out) == (0, "")
    assert "nothing to score again" in ran.err


def test_without_a_platform_there_is_nobody_to_ask(home: Path, inferdeck: Command) -> None:
    for words in (("explain", "req-1"), ("replay-decisions", "--profile", "balanced")):
        ran = inferdeck(*words)
        assert (ran.code, ran.out) == (6, "")
        assert "hint:" in ran.err
