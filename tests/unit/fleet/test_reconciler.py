"""What the reconciler decides, case by case."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from control_plane.fleet.actions import Action, Adopt, Blocked, Fail, Forget, Keep, Kill, Reap, Retire, Start, Stop
from control_plane.fleet.health import Life
from control_plane.fleet.reconciler import plan
from control_plane.fleet.state import (
    BACKOFF_FIRST_S,
    BACKOFF_LONGEST_S,
    LOST_STOP_S,
    STABLE_S,
    START_SILENCE_S,
    STOP_S,
    Fleet,
    PoolTarget,
    Record,
    Replica,
    Stage,
    backoff_s,
)

NOW = 1000.0


def replica(number: int, stage: Stage = Stage.SERVING, **fields: Any) -> Replica:
    given = {"since": NOW - 5, "life": Life.ALIVE, "signed_at": NOW, "idle": stage is Stage.SERVING} | fields
    return Replica(f"p-{number}", "p", stage, **given)


def decide(replicas: int, *members: Replica, records: tuple[Record, ...] = (), **target: Any) -> tuple[Action, ...]:
    return plan(Fleet((PoolTarget("p", replicas, **target),), members, records), NOW)


def test_an_empty_fleet_is_started_at_once_and_numbered_from_one() -> None:
    assert decide(2) == (Start("p-1", "p"), Start("p-2", "p"))


def test_a_fleet_as_it_should_be_is_left_alone() -> None:
    assert decide(2, replica(1), replica(2)) == ()
    assert decide(2, replica(1, Stage.STARTING), replica(2)) == ()


def test_the_lowest_free_number_is_taken() -> None:
    assert decide(3, replica(1), replica(3)) == (Start("p-2", "p"),)


def test_a_worker_that_ended_is_due_again_after_the_backoff_under_its_own_name() -> None:
    ended = replica(1, ended="exit code 3")
    assert decide(1, ended) == (Fail("p-1", 1, NOW + BACKOFF_FIRST_S),)
    waiting = replica(1, Stage.WAITING, restart_at=NOW + 0.1, failures=1)
    assert decide(1, waiting) == ()
    assert decide(1, dataclasses.replace(waiting, restart_at=NOW)) == (Start("p-1", "p"),)


def test_failures_in_a_row_add_up_and_long_service_forgives_them() -> None:
    soon = replica(1, ended="boom", failures=3, since=NOW - STABLE_S + 1)
    assert decide(1, soon) == (Fail("p-1", 4, NOW + backoff_s(4)),)
    later = replica(1, ended="boom", failures=3, since=NOW - STABLE_S)
    assert decide(1, later) == (Fail("p-1", 1, NOW + backoff_s(1)),)
    loading = replica(1, Stage.STARTING, ended="boom", failures=3, since=NOW - 10 * STABLE_S)
    assert decide(1, loading) == (Fail("p-1", 4, NOW + backoff_s(4)),)


def test_the_backoff_doubles_and_is_bounded() -> None:
    assert [backoff_s(failures) for failures in range(1, 5)] == [0.5, 1.0, 2.0, 4.0]
    assert backoff_s(10_000) == BACKOFF_LONGEST_S


def test_scale_in_retires_first_and_stops_only_what_is_drained_and_idle() -> None:
    (retire,) = decide(1, replica(1), replica(2))
    assert retire == Retire("p-2", "pool p is scaled to 1")
    assert decide(1, replica(1), replica(2, retiring=True)) == ()
    assert decide(1, replica(1), replica(2, retiring=True, drained=True, idle=False)) == ()
    (stop,) = decide(1, replica(1), replica(2, retiring=True, drained=True))
    assert stop == Stop("p-2", "nothing runs on it any more")


@pytest.mark.parametrize(
    ("members", "victim"),
    [
        ((replica(1, idle=False, in_flight=3), replica(2, idle=False, in_flight=5)), "p-1"),
        ((replica(1), replica(2, idle=False, in_flight=1)), "p-1"),
        ((replica(1), replica(2)), "p-2"),
        ((replica(1, cordoned=True), replica(2)), "p-1"),
        ((replica(1, Stage.STARTING), replica(2)), "p-1"),
        ((replica(1, Stage.WAITING, restart_at=NOW + 9), replica(2, Stage.STARTING)), "p-1"),
        ((replica(1), replica(2, idle=False)), "p-1"),
        ((replica(1, idle=False, in_flight=0, life=Life.LOST), replica(2, idle=False, in_flight=1)), "p-1"),
    ],
    ids=["least work", "idle", "youngest", "cordoned", "starting", "waiting", "unknown is not idle", "lost"],
)
def test_scale_in_takes_the_worker_that_costs_least(members: tuple[Replica, Replica], victim: str) -> None:
    actions = decide(1, *members)
    assert [action.worker_id for action in actions if isinstance(action, Retire | Forget)] == [victim]


def test_scaling_to_nothing_is_allowed() -> None:
    assert decide(0, replica(1)) == (Retire("p-1", "pool p is scaled to 0"),)


def test_a_retiring_worker_is_called_back_before_another_is_started() -> None:
    busy = replica(2, retiring=True, idle=False, in_flight=4)
    assert decide(2, replica(1), busy, replica(3, retiring=True)) == (Keep("p-2"),)
    assert decide(3, replica(1), busy, replica(3, Stage.STOPPING, retiring=True)) == (Keep("p-2"), Start("p-4", "p"))


def test_one_whose_settings_are_old_is_not_called_back() -> None:
    assert decide(1, replica(1, retiring=True, outdated=True)) == (Start("p-2", "p"),)


def test_starts_wait_while_old_processes_still_end() -> None:
    ending = tuple(replica(number, Stage.STOPPING, retiring=True) for number in (1, 2, 3))
    assert decide(2, *ending) == ()
    assert decide(3, *ending) == (Start("p-4", "p"),)


def test_a_retiring_worker_that_ended_is_forgotten_and_not_restarted() -> None:
    assert decide(1, replica(1), replica(2, Stage.STOPPING, retiring=True, ended="exit code 0")) == (Forget("p-2"),)
    assert decide(1, replica(1), replica(2, Stage.WAITING, retiring=True)) == (Forget("p-2"),)


def test_a_worker_that_will_not_stop_is_killed_once() -> None:
    slow = replica(1, Stage.STOPPING, since=NOW - STOP_S - 1)
    assert decide(1, slow) == (Kill("p-1"),)
    assert decide(1, dataclasses.replace(slow, killed=True)) == ()


def test_silence_is_borne_for_a_minute_and_then_ended() -> None:
    silent = replica(1, life=Life.LOST, idle=False, signed_at=NOW - LOST_STOP_S)
    assert decide(1, silent) == ()
    (stop,) = decide(1, dataclasses.replace(silent, signed_at=NOW - LOST_STOP_S - 1))
    assert stop == Stop("p-1", "no sign of life for 61 s")


def test_one_whose_engine_hangs_is_ended_at_once() -> None:
    hung = replica(1, life=Life.LOST, idle=False, signed_at=NOW, stalled=True)
    assert decide(1, hung) == (Stop("p-1", "its engine hangs"),)


def test_a_start_without_progress_is_ended_after_long_and_begun_again() -> None:
    began = NOW - 2 * START_SILENCE_S
    moving = replica(1, Stage.STARTING, since=began, moved_at=NOW - START_SILENCE_S)
    assert decide(1, moving) == ()
    stuck = dataclasses.replace(moving, moved_at=NOW - START_SILENCE_S - 1)
    assert decide(1, stuck) == (Stop("p-1", "its start has shown no progress for 15 minutes"),)
    assert decide(1, dataclasses.replace(stuck, since=NOW)) == (), "what an earlier process announced is not counted"
    ended = dataclasses.replace(stuck, stage=Stage.STOPPING, since=NOW, failures=2, ended="killed by SIGKILL")
    assert decide(1, ended) == (Fail("p-1", 3, NOW + backoff_s(3)),)


def test_what_an_earlier_control_plane_left_is_adopted_before_anything_is_started() -> None:
    found = (Record("p-1", "p", alive=True), Record("p-2", "p", alive=False))
    assert decide(2, records=found) == (Adopt("p-1"), Reap("p-2"))
    assert decide(2, records=found[1:]) == (Reap("p-2"), Start("p-1", "p"), Start("p-2", "p"))


def test_a_live_process_with_old_settings_or_of_no_pool_is_adopted_to_be_retired() -> None:
    found = (Record("p-1", "p", alive=True, outdated=True), Record("gone-1", "gone", alive=True))
    assert decide(0, records=found) == (Adopt("p-1", retire=True), Adopt("gone-1", retire=True))


def test_a_second_process_of_one_name_is_ended() -> None:
    assert decide(1, replica(1), records=(Record("p-1", "p", alive=True),)) == (Reap("p-1"),)


def test_workers_of_a_pool_that_is_gone_are_retired() -> None:
    stray = Replica("old-1", "old", Stage.SERVING, NOW)
    assert plan(Fleet((), (stray,)), NOW) == (Retire("old-1", "pool old is scaled to 0"),)


def test_devices_are_handed_out_once() -> None:
    actions = decide(2, replica(1, gpus=(0, 1)), gpus_each=2, gpus=(0, 1, 2, 3))
    assert actions == (Start("p-2", "p", (2, 3)),)
    blocked = decide(2, replica(1, gpus=(0, 1)), gpus_each=2, gpus=(0, 1, 2))
    assert blocked == (Blocked("p", "a worker takes 2 GPUs, 1 of 3 are free"),)


def test_devices_of_a_process_that_still_ends_are_not_free() -> None:
    ending = replica(1, Stage.STOPPING, retiring=True, gpus=(0,))
    assert decide(1, ending, gpus_each=1, gpus=(0,)) == (Blocked("p", "a worker takes 1 GPUs, 0 of 1 are free"),)


def test_two_pools_share_one_set_of_devices() -> None:
    pools = (PoolTarget("a", 1, 1, (0, 1)), PoolTarget("b", 2, 1, (0, 1)))
    actions = plan(Fleet(pools), NOW)
    assert actions == (
        Start("a-1", "a", (0,)),
        Start("b-1", "b", (1,)),
        Blocked("b", "a worker takes 1 GPUs, 0 of 2 are free"),
    )
