"""An engine's steps, blocks and trace on the command line."""

from __future__ import annotations

import json

import pytest
import yaml

from control_plane.contracts.step import (
    BlockSnapshot,
    BlockTable,
    EngineStep,
    SharedBlock,
    StepKind,
    StepRow,
    TraceMode,
    TraceState,
)
from tests.unit.console.conftest import Command
from tests.unit.console.fake_operator import FakeOperator


@pytest.fixture(autouse=True)
def steps(operator: FakeOperator) -> None:
    operator.steps = tuple(
        EngineStep(
            number,
            float(number),
            0.001,
            0.04,
            tokens=1,
            rows=(StepRow("req-1", StepKind.DECODE, 1, number, 4, joined=number == 1),),
            total_blocks=10,
            used_blocks=4,
            dropped=2 if number > 15 else 0,
        )
        for number in range(1, 21)
    )
    operator.trace = TraceState(TraceMode.FULL, step=20, first_kept=1, dropped=2)


def numbers(text: str) -> list[int]:
    return [int(line.split()[0]) for line in text.splitlines() if line.split()[0].isdigit() and "lost" not in line]


def test_the_last_ten_steps_then_those_to_come(operator: FakeOperator, inferdeck: Command) -> None:
    ran = inferdeck("top", "worker/smollm2-1", "--steps")
    assert ran.code == 0
    assert numbers(ran.out) == list(range(11, 21))
    assert ran.out.splitlines()[0].split()[0] == "STEP"
    lines = ran.out.splitlines()
    assert lines[6] == "2 steps lost here"
    assert lines[7].split()[0] == "16"
    assert ran.err == "worker/smollm2-1 ended\n"


def test_so_many_from_a_step_on(operator: FakeOperator, inferdeck: Command) -> None:
    ran = inferdeck("top", "smollm2-1", "--steps", "--from", "3", "-n", "4")
    assert (numbers(ran.out), ran.code, ran.err) == ([3, 4, 5, 6], 0, "")


def test_an_object_a_line(operator: FakeOperator, inferdeck: Command) -> None:
    ran = inferdeck("top", "worker/smollm2-1", "--steps", "-n", "2", "-o", "json")
    told = [json.loads(line) for line in ran.out.splitlines()]
    assert [(each["step"], each["rows"][0]["kind"], each["used_blocks"]) for each in told] == [
        (11, "decode", 4),
        (12, "decode", 4),
    ]
    assert [each["step"] for each in yaml.safe_load(inferdeck("top", "w/smollm2-1", "--steps", "-o", "yaml").out)] == (
        list(range(11, 21))
    )
    assert inferdeck("top", "smollm2-1", "--steps", "-n", "1", "-o", "name").out == "step/11\n"


def test_no_trace_is_a_failure_that_says_why(operator: FakeOperator, inferdeck: Command) -> None:
    operator.steps, operator.trace = (), TraceState(unavailable="vLLM 0.99 is not known")
    ran = inferdeck("top", "worker/smollm2-1", "--steps")
    assert (ran.code, ran.err) == (1, "no trace: vLLM 0.99 is not known\n")
    assert inferdeck("trace", "worker/smollm2-1").out == "worker/smollm2-1: no trace: vLLM 0.99 is not known\n"


def test_a_trace_that_is_off_is_said_to_be(operator: FakeOperator, inferdeck: Command) -> None:
    operator.trace = TraceState(TraceMode.OFF)
    assert "trace worker/smollm2-1 full" in inferdeck("top", "worker/smollm2-1", "--steps", "-n", "1").err


def test_whose_steps(operator: FakeOperator, inferdeck: Command) -> None:
    assert inferdeck("top", "--steps").code == 2
    assert inferdeck("top", "worker/other", "--steps").code == 3
    assert inferdeck("top", "pool/smollm2", "--steps").code == 2


def test_top_of_one_worker(operator: FakeOperator, inferdeck: Command) -> None:
    ran = inferdeck("top", "worker/smollm2-2")
    assert [line.split()[0] for line in ran.out.splitlines()[1:]] == ["NAME", "smollm2-2"]
    assert inferdeck("top", "worker/smollm2-9").code == 3


def test_the_trace_is_told_and_set(operator: FakeOperator, inferdeck: Command) -> None:
    assert inferdeck("trace", "worker/smollm2-1").out == (
        "worker/smollm2-1: trace full, step 20, kept from 1, 2 dropped\n"
    )
    assert operator.calls == []
    assert "trace every 8," in inferdeck("trace", "worker/smollm2-1", "every", "8").out
    assert json.loads(inferdeck("trace", "smollm2-1", "off", "-o", "json").out)["mode"] == "off"
    inferdeck("trace", "smollm2-1", "FULL")
    assert operator.calls == ["trace smollm2-1 2 8", "trace smollm2-1 1 0", "trace smollm2-1 3 0"]


@pytest.mark.parametrize(
    "words", [["some"], ["every"], ["every", "0"], ["every", "x"], ["off", "8"], ["every", "9" * 11]]
)
def test_a_trace_that_there_is_not(operator: FakeOperator, inferdeck: Command, words: list[str]) -> None:
    ran = inferdeck("trace", "worker/smollm2-1", *words)
    assert ran.code == 2
    assert "off, full, and every N" in ran.err
    assert operator.calls == []


def test_blocks_as_a_table_and_as_data(operator: FakeOperator, inferdeck: Command) -> None:
    operator.blocks = BlockSnapshot(
        9,
        block_size=32,
        total_blocks=10,
        used_blocks=3,
        cached_free_blocks=1,
        free_blocks=6,
        tables=(BlockTable("req-1", (1, 2), 50), BlockTable("req-2", (1, 3), 60)),
        shared=(SharedBlock(1, 2),),
        cached_free=(7,),
    )
    ran = inferdeck("describe", "worker/smollm2-1", "--blocks")
    assert ran.code == 0
    assert "3 used + 1 cached-free + 6 free = 10 (30% used, 1 saved by sharing)" in ran.out
    assert [line.split() for line in ran.out.splitlines() if line.startswith("req-")] == [
        ["req-1", "50", "2", "1", "1*", "2"],
        ["req-2", "60", "2", "1", "1*", "3"],
    ]
    data = json.loads(inferdeck("describe", "worker/smollm2-1", "--blocks", "-o", "json").out)
    assert (data["worker_id"], data["shared"]) == ("smollm2-1", [{"block": 1, "references": 2}])
    two = json.loads(inferdeck("describe", "workers", "smollm2-1", "smollm2-2", "--blocks", "-o", "json").out)
    assert [each["worker_id"] for each in two] == ["smollm2-1", "smollm2-2"]


def test_only_workers_have_blocks(operator: FakeOperator, inferdeck: Command) -> None:
    assert inferdeck("describe", "pool/smollm2", "--blocks").code == 2
    assert inferdeck("describe", "worker/other", "--blocks").code == 3
