from __future__ import annotations

from dataclasses import replace

from console.tui.order import Verb, make_order
from console.tui.plan import Plan, plan_for
from control_plane.contracts.fleet import Snapshot
from tests.snapshots.memory import request, snapshot, worker


def plan(verb: Verb, ids: list[str], now: Snapshot, replicas: int = 0) -> Plan:
    return plan_for(make_order(verb, ids, now, replicas), now)


def fact(of: Plan, label: str) -> str:
    return next(value for name, value in of.facts if name == label)


def test_a_drain_names_the_work_and_who_is_left() -> None:
    shown = plan(Verb.DRAIN, ["smollm2-1"], snapshot(workers=3, requests=8))
    assert fact(shown, "target").startswith("smollm2-1 · pid 4711 · KV ")
    assert fact(shown, "in flight") == "16 requests: req-1388, req-138e and 14 more"
    assert "those in flight finish; it stays cordoned" in fact(shown, "then")
    assert fact(shown, "left") == "2 other ready workers for smollm2-135m"
    assert shown.warnings == ()


def test_draining_the_last_worker_warns() -> None:
    now = snapshot(workers=2)
    cordoned = replace(now, workers=(now.workers[0], replace(now.workers[1], cordoned=True)))
    shown = plan(Verb.DRAIN, ["smollm2-1"], cordoned)
    assert fact(shown, "left") == "0 other ready workers for smollm2-135m"
    assert shown.warnings == ("nobody is left to serve smollm2-135m: new requests will wait, then get 503",)
    assert plan(Verb.CORDON, ["smollm2-1", "smollm2-2"], now).warnings


def test_an_uncordon_hurts_nobody() -> None:
    idle = worker("w1", cordoned=True, in_flight=0)
    shown = plan(Verb.UNCORDON, ["w1"], snapshot(workers=(idle,), requests=0))
    assert fact(shown, "in flight") == "nothing"
    assert "sends new requests again" in fact(shown, "then")
    assert shown.warnings == ()


def test_scaling_out_and_in() -> None:
    now = snapshot(workers=2)
    assert fact(plan(Verb.SCALE, ["smollm2"], now, 4), "then") == "2 workers started"
    less = plan(Verb.SCALE, ["smollm2"], now, 1)
    assert fact(less, "then") == "1 worker drained and stopped, the idlest first"
    assert less.warnings == ()
    assert plan(Verb.SCALE, ["smollm2"], now, 0).warnings


def test_a_cancel_says_what_the_caller_gets() -> None:
    now = snapshot(workers=1, requests=(request("r1"), request("r2", output_tokens=7)))
    shown = plan(Verb.CANCEL, ["r1", "r2"], now)
    assert fact(shown, "target") == "r1 · smollm2-135m · on smollm2-1 · 143 tokens out · 7s"
    assert fact(shown, "so far") == "150 tokens generated"
    assert "request_cancelled" in fact(shown, "then")


def test_many_targets_are_counted() -> None:
    now = snapshot(workers=9, requests=0)
    shown = plan(Verb.DRAIN, [view.id for view in now.workers], now)
    assert [value for _, value in shown.facts if value.startswith("…")] == ["… and 3 more"]


def test_a_plan_of_things_that_are_gone_still_reads() -> None:
    now = snapshot(workers=2)
    order = make_order(Verb.SCALE, ["smollm2"], now, 3)
    assert plan_for(order, replace(now, pools=(), workers=())).facts
