from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.contracts.fleet import Event, RequestPhase
from lessons import measures as m
from lessons.encoded import BothForms, Encoded
from lessons.hops import TokenHops
from lessons.observation import Value
from lessons.plan_action import PlanOf
from lessons.statistic import Stat, statistic
from tests.unit.lessons.seen import blocks, call, finished, observation, request, step
from tests.unit.lessons.test_batch_measures import CASES as BATCH_CASES
from tests.unit.lessons.test_block_measures import CASES as BLOCK_CASES
from tests.unit.lessons.test_conversation import CASES as CONVERSATION_CASES

CALLS = (
    call(
        "a",
        ttft_s=0.1,
        gaps_s=(0.01, 0.03),
        duration_s=1.0,
        output_tokens=3,
        worker_id="w-1",
        status=200,
        events=5,
        finish="stop",
        stages_s={"queue": 0.5, "prefill": 0.2, "decode": 0.4},
        headers={"x-ratelimit-remaining-tokens": "70", "x-ratelimit-remaining-requests": "9"},
        hops=(
            TokenHops(1, 4, 1.0, 1.125, 1.25, None, 1.25),
            TokenHops(2, 5, 2.0, 2.125, 2.25, None, 2.5),
            TokenHops(3, 6, 3.0),
        ),
    ),
    call(
        "a",
        ttft_s=0.3,
        gaps_s=(0.02,),
        duration_s=2.0,
        output_tokens=2,
        worker_id="w-2",
        status=200,
        events=6,
        finish="length",
        stages_s={"queue": 0.1, "prefill": 0.3, "decode": 0.4},
        headers={"x-ratelimit-remaining-tokens": "30", "x-ratelimit-remaining-requests": "8"},
    ),
    call("c", ok=False, error="rate_limit_exceeded", status=429, headers={"retry-after": "7"}),
    call("d", ok=False, error="rate_limit_exceeded", status=429, headers={"retry-after": "soon"}, finish="stop"),
    call("b", ok=False, error="request_cancelled", prompt_tokens=7, worker_id="w-2", retries=2),
    call("b", ok=False, left=True, cached_tokens=4, prompt_tokens=9),
)
STEPS = {
    "w-1": (
        step(1, 10, execute_s=0.1, batch=3, waiting_total=2),
        step(2, 50, execute_s=0.3, preempted=("x", "y"), finished=(finished("abort", 12), finished("length", 5))),
    ),
    "w-2": (step(7, 6, execute_s=0.2, batch=2, finished=(finished("abort", 1),)),),
    "w-3": (),
}
SEEN = observation(
    calls=CALLS,
    steps=STEPS,
    blocks={"w-1": blocks(5), "w-2": blocks(6, 200)},
    events=(
        Event(1, 1.0, "worker_lost", "w-1", "gone"),
        Event(2, 1.0, "other", "w-1", ""),
        Event(3, 1.5, "worker_back", "w-2", ""),
        Event(4, 3.5, "worker_back", "w-1", ""),
    ),
    plans={
        "two": PlanOf("two", "Llama-3.1-70B", "H100", 8192, concurrency=6, tp=2).worked_out(),
        "any": PlanOf("any", "Llama-3.1-70B", "H100", 8192, concurrency=6).worked_out(),
        "none": PlanOf("none", "Llama-3.1-405B", "L4", 8192, tp=1).worked_out(),
    },
    requests=(request(RequestPhase.DECODING), request(RequestPhase.QUEUED), request(RequestPhase.FINISHED)),
    encoded={"a": BothForms(Encoded(900, 0.5, 0.25), Encoded(300, 0.125, 0.0625))},
    profile="round_robin",
    new=(
        request(RequestPhase.FINISHED, api="chat", stream=True, reason="stop", prompt_tokens=40),
        request(RequestPhase.FINISHED, api="chat", reason="length", prompt_tokens=9),
        request(RequestPhase.FAILED, api="completions", stream=True, reason="worker_lost"),
    ),
    measured={"two": 2.0, "eight": 8.0, "nothing": None, "word": "w-1", "zero": 0.0},
)


@pytest.mark.parametrize(
    ("measure", "value"),
    [
        (m.Ttft("a", "max"), 0.3),
        (m.Ttft("", "p50"), 0.1),
        (m.Ttft("b"), None),
        (m.Gap("a", "mean"), pytest.approx(0.02)),
        (m.Stall("a"), pytest.approx(1.5)),
        (m.Stall("b"), None),
        (m.Duration("a", "p90"), 2.0),
        (m.Duration("b"), None),
        (m.Ended(), 6.0),
        (m.Ended("a", "ok"), 2.0),
        (m.Ended("b", "left"), 1.0),
        (m.Ended("b", "failed"), 1.0),
        (m.Ended("x"), None),
        (m.Error("a"), "none"),
        (m.Error("b"), "several"),
        (m.Error("x"), None),
        (m.Status("a"), 200.0),
        (m.Status("c"), 429.0),
        (m.Status(), "several"),
        (m.Status("b"), None),
        (m.TokensLeft("a"), 30.0),
        (m.TokensLeft("a", "max"), 70.0),
        (m.TokensLeft("c"), None),
        (m.RequestsLeft("a"), 8.0),
        (m.RetryAfter(), 7.0),
        (m.RetryAfter("d"), None),
        (m.Reached(), 3.0),
        (m.Reached("c"), 0.0),
        (m.Reached("x"), None),
        (m.StageTime("queue", "a", "max"), 0.5),
        (m.StageTime("queue", "b"), None),
        (m.LongestStage("a"), "decode"),
        (m.LongestStage("b"), None),
        (m.StreamEvents("a"), 11.0),
        (m.FinishReason("a"), "several"),
        (m.FinishReason("d"), "stop"),
        (m.FinishReason("b"), None),
        (m.HopTime(), pytest.approx(0.25)),
        (m.HopTime(calls="a", stat="max"), pytest.approx(0.5)),
        (m.HopTime("worker", "router"), pytest.approx(0.125)),
        (m.HopTime("router", "gateway"), None),
        (m.HopTime(calls="c"), None),
        (m.MessageSize("json", "a"), 900.0),
        (m.MessageSize("protobuf", "a"), 300.0),
        (m.MessageSize("json", "b"), None),
        (m.MessageTime("json", "a"), 0.75),
        (m.MessageTime("json", "a", "write"), 0.5),
        (m.MessageTime("protobuf", "a", "read"), 0.0625),
        (m.MessageTime("json", "b"), None),
        (m.Requests(), 3.0),
        (m.Requests("chat"), 2.0),
        (m.Requests("chat", streamed=True), 1.0),
        (m.Requests(reason="length"), 1.0),
        (m.Requests(at_least_prompt=10), 1.0),
        (m.Delivered("a"), 5.0),
        (m.Delivered("b", "prompt"), 16.0),
        (m.Delivered("b", "cached"), 4.0),
        (m.HitRate(), 0.25),
        (m.HitRate("a"), None),
        (m.Moved("b"), 1.0),
        (m.Moved("a"), 0.0),
        (m.Moved("x"), None),
        (m.Share("w-2"), pytest.approx(2 / 3)),
        (m.Share("w-1", "b"), 0.0),
        (m.Share("w-1", "x"), None),
        (m.KvPeak(), 0.5),
        (m.KvPeak("w-2"), 0.06),
        (m.KvPeak("w-3"), None),
        (m.KvMean("w-1"), pytest.approx(0.3)),
        (m.BlocksPeak("w-1"), 50.0),
        (m.BlocksNow(), 11.0),
        (m.BlocksNow("w-2", total=True), 200.0),
        (m.BlocksNow("w-9"), None),
        (m.Fullest(), "w-1"),
        (m.KvSpread(), pytest.approx(5.0)),
        (m.Slowest(), "w-2"),
        (m.Skew("a"), pytest.approx(1.0)),
        (m.Skew("b"), None),
        (m.BatchPeak(), 3.0),
        (m.BatchPeak("w-2"), 2.0),
        (m.BatchPeak(added=True), 5.0),
        (m.WaitingPeak("w-1"), 2.0),
        (m.Preemptions(), 2.0),
        (m.EngineTokens("abort"), 13.0),
        (m.EngineTokens(), 18.0),
        (m.EngineTokens("stop"), None),
        (m.StepTime("w-1", "min"), 0.1),
        (m.Active(), 2.0),
        (m.Ready(), 2.0),
        (m.Ready(open=True), 1.0),
        (m.Cordoned("w-2"), "yes"),
        (m.Cordoned("w-1"), "no"),
        (m.Cordoned("w-9"), None),
        (m.RoutingProfile(), "round_robin"),
        (m.Events("worker_lost"), 1.0),
        (m.Apart("worker_lost", "worker_back"), 2.5),
        (m.Apart("worker_lost", "never"), None),
        (m.Apart("worker_back", "worker_lost"), None),
        (m.PlanGpus("any"), 4.0),
        (m.PlanGpus("two"), 4.0),
        (m.PlanGpus("none"), None),
        (m.PlanRequests("two"), 3.0),
        (m.PlanMemory("two", "weights"), pytest.approx(141.1e9, rel=1e-3)),
        (m.PlanMemory("two", "weights_each"), pytest.approx(70.55e9, rel=1e-3)),
        (m.PlanMemory("two", "kv_token"), 327680.0),
        (m.PlanMemory("two", "kv_needed"), pytest.approx(6 * 8192 * 327680, rel=1e-2)),
        (m.PlanMemory("two", "kv_room"), pytest.approx(4.5e9, rel=0.2)),
        (m.PlanMemory("none", "kv_room"), 0.0),
        (m.PlanMemory("two", "device"), pytest.approx(79.15 * 2**30, rel=1e-6)),
        (m.PlanTime("two", "decode"), pytest.approx(70.55e9 / 3.35e12, rel=0.05)),
        (m.PlanTime("two", "first_token"), pytest.approx(1000 * 70.55e9 / 989.4e12, rel=0.2)),
        (m.Measured("two"), 2.0),
        (m.Measured("missing"), None),
        (m.Ratio("eight", "two"), 4.0),
        (m.Ratio("eight", "zero"), None),
        (m.Ratio("eight", "nothing"), None),
        (m.Ratio("word", "two"), None),
    ],
)
def test_what_each_measure_says(measure: m.Measure, value: Value | None) -> None:
    assert measure.read(SEEN) == value


def test_every_measure_has_a_case_and_a_word_of_its_own() -> None:
    assert len(m.MEASURES) == len(m.Measure.__args__)
    cases = [*test_what_each_measure_says.pytestmark[0].args[1], *BATCH_CASES, *BLOCK_CASES, *CONVERSATION_CASES]
    assert {type(case[0]) for case in cases} == set(m.MEASURES.values())


@pytest.mark.parametrize("kind", [kind for kind in m.MEASURES.values() if kind is not m.Events])
def test_what_was_not_seen_is_unknown_and_never_zero(kind: type[m.Measure]) -> None:
    """But for counts of what the platform has now, or had, and of events: none are told, so there are none."""
    given_fields = {"worker": "w-1", "value": "x", "to": "y", "plan": "p", "what": "", "first": "a", "then": "b"} | {
        "ended": "b",
        "calls": "a",
        "stage": "prefill",
        "form": "json",
    }
    made = kind(**{name: given_fields[name] for name in given_fields if name in kind.__dataclass_fields__})
    assert made.read(observation(workers=())) in ((0.0,) if kind in (m.Active, m.Ready, m.Requests) else (None,))


@pytest.mark.parametrize("measure", [m.KvPeak(), m.Preemptions(), m.Fullest(), m.Slowest(), m.EngineTokens()])
def test_where_steps_were_lost_a_peak_or_a_sum_is_not_known(measure: m.Measure) -> None:
    assert measure.read(observation(steps=STEPS, lost_steps=1)) is None


def test_equals_have_no_first() -> None:
    even = {"w-1": (step(1, 5, execute_s=0.1),), "w-2": (step(1, 5, execute_s=0.1),)}
    assert m.Fullest().read(observation(steps=even)) is None
    assert m.Slowest().read(observation(steps=even)) is None


@given(st.lists(st.floats(0, 1e6), min_size=1), st.sampled_from(["p50", "p90", "p99", "mean", "max", "min"]))
def test_a_statistic_lies_within_its_values(values: list[float], stat: Stat) -> None:
    found = statistic(values, stat)
    assert found is not None
    assert min(values) <= found * (1 + 1e-9)
    assert found <= max(values) * (1 + 1e-9)
    if stat != "mean":
        assert found in values


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_quantiles_are_in_order(values: list[float]) -> None:
    order = [statistic(values, stat) for stat in ("min", "p50", "p90", "p99", "max")]
    assert order == sorted(order, key=lambda value: value or 0.0)


def test_what_all_calls_were_told_is_not_known_while_one_runs() -> None:
    told = (call("flood", ok=False, error="request_cancelled"),)
    assert m.Error("flood").read(observation(calls=told)) == "request_cancelled"
    assert m.Error("flood").read(observation(calls=told, running=("flood",))) is None
    assert m.Error("flood").read(observation(calls=told, running=("other",))) == "request_cancelled"
    assert m.Error().read(observation(calls=told, running=("other",))) is None
