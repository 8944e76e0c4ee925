from __future__ import annotations

from dataclasses import replace

import pytest

from console.tui.order import Refused, Verb, make_order, problems
from control_plane.contracts.fleet import Pool, RequestPhase, Snapshot, WorkerPhase, WorkerView
from tests.snapshots.memory import NOW, request, snapshot, worker


def with_workers(*workers: WorkerView) -> Snapshot:
    return snapshot(workers=workers, requests=0)


W1 = worker("w1")


def test_targets_are_fixed_with_what_tells_them_apart() -> None:
    order = make_order(Verb.DRAIN, ["w1"], with_workers(W1))
    assert [(target.id, target.same) for target in order.targets] == [("w1", "instance-w1")]
    assert order.title == "drain worker w1"


def test_nothing_stands_against_an_order_while_nothing_changes() -> None:
    for verb, view in ((Verb.DRAIN, W1), (Verb.CORDON, W1), (Verb.UNCORDON, replace(W1, cordoned=True))):
        now = with_workers(view)
        assert problems(make_order(verb, ["w1"], now), now, connected=True) == []


def test_more_requests_in_flight_are_no_other_worker() -> None:
    order = make_order(Verb.DRAIN, ["w1"], with_workers(W1))
    assert problems(order, with_workers(replace(W1, in_flight=99)), connected=True) == []


def test_a_worker_that_is_gone_or_replaced() -> None:
    order = make_order(Verb.DRAIN, ["w1"], with_workers(W1))
    assert problems(order, with_workers(), connected=True) == ["worker w1 is gone"]
    assert W1.info is not None
    other = replace(W1, info=replace(W1.info, instance_id="another"))
    (problem,) = problems(order, with_workers(other), connected=True)
    assert "replaced" in problem


def test_a_worker_that_said_its_name_since_is_still_the_same() -> None:
    young = replace(W1, info=None, phase=WorkerPhase.STARTING)
    order = make_order(Verb.CORDON, ["w1"], with_workers(young))
    assert problems(order, with_workers(W1), connected=True) == []
    (problem,) = problems(order, with_workers(replace(W1, pid=999)), connected=True)
    assert "replaced" in problem


def test_without_a_connection_nothing_is_done() -> None:
    order = make_order(Verb.DRAIN, ["w1"], with_workers(W1))
    (problem,) = problems(order, with_workers(W1), connected=False)
    assert "no connection" in problem
    assert problems(order, None, connected=True)


@pytest.mark.parametrize(
    ("verb", "view", "why"),
    [
        (Verb.UNCORDON, W1, "is not cordoned"),
        (Verb.CORDON, replace(W1, cordoned=True), "is cordoned already"),
        (Verb.DRAIN, replace(W1, phase=WorkerPhase.STOPPING), "is stopping"),
    ],
)
def test_orders_without_a_point_are_refused(verb: Verb, view: WorkerView, why: str) -> None:
    with pytest.raises(Refused, match=why):
        make_order(verb, ["w1"], with_workers(view))


def test_a_worker_that_is_drained_can_be_drained_again() -> None:
    now = with_workers(replace(W1, cordoned=True, draining=True))
    assert problems(make_order(Verb.DRAIN, ["w1"], now), now, connected=True) == []


def test_nothing_selected_nothing_known() -> None:
    with pytest.raises(Refused, match="no worker is selected"):
        make_order(Verb.DRAIN, [], with_workers())
    with pytest.raises(Refused, match="w9 does not exist"):
        make_order(Verb.DRAIN, ["w9"], with_workers(W1))
    with pytest.raises(Refused, match="nothing is known"):
        make_order(Verb.DRAIN, ["w1"], None)


def test_scale_is_about_the_count_that_was_seen() -> None:
    two = snapshot(workers=2)
    order = make_order(Verb.SCALE, ["smollm2"], two, 3)
    assert order.title == "scale pool smollm2 from 2 to 3"
    assert problems(order, two, connected=True) == []
    scaled = replace(two, pools=(Pool("smollm2", "smollm2-135m", "vllm", 5),))
    assert problems(order, scaled, connected=True) == ["pool smollm2 was scaled from 2 to 5 meanwhile"]
    assert problems(order, replace(two, pools=()), connected=True) == ["pool smollm2 is gone"]
    with pytest.raises(Refused, match="is at 2 already"):
        make_order(Verb.SCALE, ["smollm2"], two, 2)


def test_cancel_is_about_one_request_that_runs() -> None:
    running = snapshot(workers=1, requests=(request("r1"),))
    order = make_order(Verb.CANCEL, ["r1"], running)
    assert problems(order, running, connected=True) == []
    for phase, word in ((RequestPhase.FINISHED, "has ended"), (RequestPhase.CANCELLED, "was cancelled")):
        ended = replace(running, requests=(request("r1", phase=phase),))
        assert problems(order, ended, connected=True) == [f"request r1 {word} already"]
        with pytest.raises(Refused, match=word):
            make_order(Verb.CANCEL, ["r1"], ended)
    again = replace(running, requests=(request("r1", arrival_unix=NOW + 5),))
    assert "another one under the same name" in problems(order, again, connected=True)[0]


def test_several_targets_are_counted_in_the_title() -> None:
    order = make_order(Verb.DRAIN, ["w1", "w2"], with_workers(W1, worker("w2")))
    assert order.title == "drain 2 workers"
    (problem,) = problems(order, with_workers(W1), connected=True)
    assert problem == "worker w2 is gone"
