"""Verbs that change something: the plan first, then a confirmation where it hurts, then the change."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from typing import Any

import pytest

from control_plane.contracts.errors import Conflict
from control_plane.contracts.fleet import WorkerPhase
from control_plane.contracts.worker import Load, WorkerState
from tests.unit.console.conftest import Command
from tests.unit.console.fake_operator import NOW, FakeOperator, worker


def test_cordon_and_uncordon_need_no_confirmation_and_are_idempotent(
    operator: FakeOperator, inferdeck: Command
) -> None:
    assert inferdeck("cordon", "smollm2-1").out == "worker/smollm2-1 cordoned\n"
    again = inferdeck("cordon", "worker/smollm2-1")
    assert (again.code, again.out) == (0, "worker/smollm2-1 already cordoned\n")
    assert inferdeck("uncordon", "smollm2-1", "smollm2-2").code == 0
    assert operator.calls == ["cordoned smollm2-1", "uncordoned smollm2-1"]


@pytest.mark.parametrize(
    "words",
    [("drain", "smollm2-1"), ("scale", "smollm2=1"), ("cancel", "req-1")],
)
def test_destructive_verbs_need_yes_where_nobody_can_be_asked(
    operator: FakeOperator, inferdeck: Command, home: Any, words: tuple[str, ...]
) -> None:
    ran = inferdeck(*words)
    assert (ran.code, ran.out, operator.calls) == (2, "", [])
    assert ran.err.startswith(f"on {home} (127.0.0.1:")
    assert "in flight: " in ran.err
    assert ran.err.endswith(f"hint: inferdeck {words[0]} --yes {words[1]} --home {home}\n")
    done = inferdeck(*words, "--yes")
    assert done.code == 0
    assert len(operator.calls) == 1


def test_the_last_worker_of_a_model_leaves_with_a_warning(operator: FakeOperator, inferdeck: Command) -> None:
    warning = "nobody is left to serve smollm2-135m: new requests will wait, then get 503"
    assert warning not in inferdeck("drain", "smollm2-1", "--dry-run").err
    assert warning in inferdeck("scale", "smollm2=0", "--dry-run").err
    operator.update(workers=(worker("smollm2-1"), worker("smollm2-2", cordoned=True)))
    assert warning in inferdeck("drain", "smollm2-1", "--dry-run").err
    assert warning not in inferdeck("drain", "smollm2-2", "--dry-run").err


@pytest.mark.parametrize(
    "words", [("drain", "smollm2-1"), ("scale", "smollm2=1"), ("cancel", "req-1"), ("cordon", "smollm2-1")]
)
def test_a_dry_run_tells_the_same_plan_and_changes_nothing(
    operator: FakeOperator, inferdeck: Command, words: tuple[str, ...]
) -> None:
    ran = inferdeck(*words, "--dry-run")
    assert (ran.code, operator.calls) == (0, [])
    plan = ran.out.removesuffix(" (dry run)\n")
    assert ran.out == f"{plan} (dry run)\n"
    real = inferdeck(*words, *([] if words[0] == "cordon" else ["--yes"]))
    assert plan.removeprefix("would ") in real.err + real.out
    assert len(operator.calls) == 1


def test_a_worker_is_put_to_sleep_when_that_is_confirmed_and_woken_unasked(
    operator: FakeOperator, inferdeck: Command
) -> None:
    asked = inferdeck("sleep", "smollm2-1", "--level", "2")
    assert (asked.code, operator.calls) == (2, [])
    assert "would put" not in asked.err
    assert "put worker/smollm2-1 to sleep at level 2" in asked.err
    assert "hint: inferdeck sleep --yes smollm2-1 --level 2 --home" in asked.err
    assert inferdeck("sleep", "worker/smollm2-1", "--yes").out == "worker/smollm2-1 asleep at level 1\n"
    assert inferdeck("wake", "smollm2-1").out == "worker/smollm2-1 awake\n"
    assert operator.calls == ["sleep smollm2-1 1", "wake smollm2-1"]


@pytest.mark.parametrize("level", ["-1", "0", "3", "99999999999"])
def test_no_other_level_of_sleep_is_asked_for(operator: FakeOperator, inferdeck: Command, level: str) -> None:
    ran = inferdeck("sleep", "smollm2-1", "--yes", "--level", level)
    assert (ran.code, operator.calls) == (2, [])
    assert "--level" in ran.err


def test_one_that_sleeps_already_is_not_asked_about_and_one_that_works_is_refused(
    operator: FakeOperator, inferdeck: Command
) -> None:
    load = Load("instance-smollm2-2", NOW, WorkerState.ASLEEP, sleep_level=2)
    operator.update(workers=(worker("smollm2-1"), worker("smollm2-2", phase=WorkerPhase.ASLEEP, load=load)))
    again = inferdeck("sleep", "smollm2-2")
    assert (again.code, again.out) == (0, "worker/smollm2-2 is asleep already\n")
    told = inferdeck("get", "workers", "smollm2-2").out
    assert "asleep" in told
    assert "level 2: its weights are discarded" in told
    assert "level 2: its weights are discarded" in inferdeck("describe", "worker/smollm2-2").out
    assert inferdeck("wait", "worker/smollm2-2", "--for", "asleep").code == 0
    operator.busy = Conflict("3 requests run here, and would be lost", hint="inferdeck drain smollm2-1")
    busy = inferdeck("sleep", "smollm2-1", "--yes")
    assert busy.code == 1
    assert "3 requests run here, and would be lost" in busy.err
    assert "hint: inferdeck drain smollm2-1" in busy.err
    assert inferdeck("sleep", "smollm2-9").code == 3
    assert operator.calls == []


def test_a_failure_is_asked_for_and_its_end_is_not(operator: FakeOperator, inferdeck: Command) -> None:
    assert inferdeck("inject", "worker/smollm2-1").out == "worker/smollm2-1 has no failures\n"
    asked = inferdeck("inject", "smollm2-1", "crash")
    assert (asked.code, operator.calls) == (2, [])
    assert "in flight: " in asked.err
    assert inferdeck("inject", "smollm2-1", "stall", "--for", "30s", "--dry-run").out.endswith("(dry run)\n")
    slow = inferdeck("inject", "smollm2-1", "slow", "--factor", "4", "--for", "30s")
    assert "make worker/smollm2-1 fail: slow, steps 4 times as long, for 30 s" in slow.err
    assert "hint: inferdeck inject --yes smollm2-1 slow --for 30s --factor 4 --home" in slow.err
    assert operator.calls == []
    told = inferdeck("inject", "smollm2-1", "stall", "--for", "30s", "--yes").out.splitlines()
    assert told[1].split() == ["stall", "0", "s", "30", "s"]
    assert inferdeck("inject", "smollm2-1", "--heal").out == "worker/smollm2-1 has no failures\n"
    assert inferdeck("inject", "smollm2-1", "crash", "--yes").out == "worker/smollm2-1: crash\n"
    assert operator.calls == ["inject smollm2-1 stall", "heal smollm2-1", "inject smollm2-1 crash"]
    assert inferdeck("inject", "smollm2-1", "crash", "--for", "3s", "--yes").code == 2
    assert "crash, engine_dies, stall" in inferdeck("inject", "smollm2-1", "explode").err


def test_drain_tells_its_progress_and_its_end(operator: FakeOperator, inferdeck: Command) -> None:
    ran = inferdeck("drain", "smollm2-1", "--yes", "--timeout", "5m")
    assert ran.out == "worker/smollm2-1 drained\n"
    assert [line for line in ran.err.splitlines() if line.endswith("in flight")] == [
        "4 in flight", "2 in flight",
    ]  # fmt: skip
    assert operator.calls == ["drain smollm2-1 300"]


def test_a_drain_that_takes_too_long_says_what_is_left(operator: FakeOperator, inferdeck: Command) -> None:
    operator.drain_steps, operator.drain_times_out = (2,), True
    ran = inferdeck("drain", "smollm2-1", "--yes", "--timeout", "1")
    assert (ran.code, ran.out) == (5, "")
    assert "worker/smollm2-1 is cordoned, but not drained after 1; 2 still in flight: req-1, req-2" in ran.err


def test_a_request_is_known_by_its_name_in_an_answer_too(operator: FakeOperator, inferdeck: Command) -> None:
    assert inferdeck("cancel", "chatcmpl-req-1", "--yes").out == "request/req-1 cancelled\n"
    assert inferdeck("describe", "request/cmpl-req-1", "-o", "name").out == "request/req-1\n"


def test_a_hint_can_be_pasted_whatever_the_name(operator: FakeOperator, inferdeck: Command) -> None:
    operator.update(workers=(worker("a b;c"),))
    assert "hint: inferdeck drain --yes 'a b;c' --home" in inferdeck("drain", "a b;c").err


def test_scaling_out_asks_nothing_and_scaling_to_what_is_changes_nothing(
    operator: FakeOperator, inferdeck: Command
) -> None:
    assert inferdeck("scale", "smollm2=3").out == "pool/smollm2 scaled from 2 to 3\n"
    assert inferdeck("scale", "pool/smollm2=3").out == "nothing to change\n"
    assert operator.calls == ["scale smollm2 3"]


@pytest.mark.parametrize(
    "change", ["smollm2", "=2", "smollm2=", "smollm2=-1", "smollm2=two", "smollm2=1001", "smollm2=²"]
)
def test_a_change_that_is_none_is_refused(operator: FakeOperator, inferdeck: Command, change: str) -> None:
    ran = inferdeck("scale", change, "--yes")
    assert (ran.code, operator.calls) == (2, [])
    assert "is not POOL=N" in ran.err


def test_a_word_too_many_is_told_with_the_form(operator: FakeOperator, inferdeck: Command) -> None:
    ran = inferdeck("scale", "smollm2", "3", "--yes")
    assert (ran.code, operator.calls) == (2, [])
    assert "hint: inferdeck scale POOL=N\n" in ran.err


def test_cancelling_what_has_ended_is_no_failure_and_the_unknown_is_not_found(
    operator: FakeOperator, inferdeck: Command
) -> None:
    """C04: exit codes."""
    ended = inferdeck("cancel", "req-0")
    assert (ended.code, ended.out) == (0, "request/req-0 has ended already\n")
    assert inferdeck("cancel", "request/req-0", "--yes").code == 0
    unknown = inferdeck("cancel", "req-9", "--yes")
    assert unknown.code == 3
    assert "no request named req-9; did you mean req-" in unknown.err
    assert operator.calls == []


def test_several_requests_are_cancelled_by_one_command(operator: FakeOperator, inferdeck: Command, home: Any) -> None:
    asked = inferdeck("cancel", "req-1", "request/req-2", "req-1", "req-0")
    assert (asked.code, operator.calls) == (2, [])
    assert asked.out == "request/req-0 has ended already\n"
    assert "cancel 2 requests" in asked.err
    assert "in flight: 2 (req-1, req-2)" in asked.err
    assert asked.err.endswith(f"hint: inferdeck cancel --yes req-1 req-2 --home {home}\n")
    planned = inferdeck("cancel", "req-1", "req-2", "--dry-run")
    assert (planned.code, planned.out, operator.calls) == (0, "would cancel 2 requests (dry run)\n", [])
    unknown = inferdeck("cancel", "req-1", "req-9", "--yes")
    assert (unknown.code, operator.calls) == (3, []), "none is cancelled where one is not known"
    assert "no request named req-9" in unknown.err
    done = inferdeck("cancel", "req-1", "req-2", "--yes")
    assert (done.code, sorted(done.out.splitlines())) == (0, ["request/req-1 cancelled", "request/req-2 cancelled"])
    assert sorted(operator.calls) == ["cancel req-1", "cancel req-2"]


@pytest.mark.parametrize("words", [("drain", "smolm2-1"), ("cordon", "smolm2-1"), ("uncordon", "smolm2-1")])
def test_an_unknown_worker_is_not_found_with_the_nearest_one(
    operator: FakeOperator, inferdeck: Command, words: tuple[str, ...]
) -> None:
    ran = inferdeck(*words)
    assert (ran.code, ran.out, operator.calls) == (3, "", [])
    assert "no worker named smolm2-1; did you mean smollm2-1?" in ran.err


def test_a_worker_is_not_given_for_another_kind(operator: FakeOperator, inferdeck: Command) -> None:
    ran = inferdeck("cordon", "pool/smollm2")
    assert (ran.code, ran.err) == (2, "error: pool/smollm2 is not a worker\n")


def test_names_with_control_characters_are_told_literally(operator: FakeOperator, inferdeck: Command) -> None:
    operator.update(pools=(replace(operator.state.pools[0], name="a\x1b[31m", model="[/b] \u202e"),))
    ran = inferdeck("get", "pools")
    assert "a\\x1b[31m" in ran.out
    assert "[/b] \\u202e" in ran.out
    missing = inferdeck("scale", "\x1b]0;x\x07=1")
    assert "\x1b" not in missing.err
    assert missing.code == 3


def test_an_interrupted_drain_says_that_the_worker_stays_cordoned(operator: FakeOperator, inferdeck: Command) -> None:
    def interrupt() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        operator.ended.wait(20)

    operator.drain_steps, operator.while_draining = (3,), interrupt
    ran = inferdeck("drain", "smollm2-1", "--yes")
    assert (ran.code, ran.out) == (130, "")
    assert "stays cordoned" in ran.err
    assert "hint: inferdeck uncordon smollm2-1" in ran.err
