"""Steps and blocks as lines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from console.plain.blocks import block_lines, runs, sums
from console.plain.steps import heading, shortened, step_line, trace_words
from console.text import width
from control_plane.contracts.step import (
    BlockSnapshot,
    BlockTable,
    EngineStep,
    SharedBlock,
    StepFinished,
    StepKind,
    StepRow,
    StepWaiting,
    TraceMode,
    TraceState,
)

STEP = EngineStep(
    18402,
    0.0,
    schedule_s=0.0002,
    execute_s=0.048,
    tokens=312,
    rows=(
        StepRow("req-a", StepKind.DECODE, 1, 99, 40, output_tokens=60),
        StepRow("req-b", StepKind.LAST_PREFILL, 20, 96, 116, cached_tokens=96, joined=True),
        StepRow("req-c", StepKind.PREFILL, 290, 128, 700, resumed=True),
        StepRow("req-e#1", StepKind.DECODE, 1, 50, 40),
    ),
    waiting_total=3,
    preempted=("req-d",),
    finished=(StepFinished("req-a", "stop", 61, 4),),
    total_blocks=182,
    used_blocks=111,
    cached_free_blocks=60,
    free_blocks=11,
)
SNAPSHOT = BlockSnapshot(
    step=812,
    block_size=32,
    total_blocks=40,
    used_blocks=9,
    cached_free_blocks=3,
    free_blocks=28,
    tables=(BlockTable("req-a", (1, 2, 3, 26, 27), 136), BlockTable("req-b", (1, 2, 3, 30, 29, 28, 31), 200)),
    shared=(SharedBlock(1, 2), SharedBlock(2, 2), SharedBlock(3, 2)),
    cached_free=(12, 11, 10),
    waiting=(StepWaiting("req-w", 388),),
)


def test_a_step_says_what_it_cost_and_what_changed() -> None:
    said = (
        "18402 48.2 ms 312 4 3 61% +req-b P20 (96 cached) ^req-c p290/700 xreq-d preempted"
        " -req-a stop after 61 tokens d req-a req-e#1"
    )
    assert " ".join(step_line(STEP).split()) == said
    assert heading().index("BATCH BY") == step_line(STEP).index("+req-b")


def test_a_step_without_a_batch() -> None:
    assert step_line(EngineStep(3, 0.0, finished=(StepFinished("a", "abort", 1),))).endswith("-a abort after 1 token")
    assert step_line(EngineStep(3, 0.0)).endswith("–  nothing ran")


def test_on_a_terminal_it_fits_and_ids_are_short() -> None:
    rows = tuple(StepRow(f"{letter}0123456789abcdef", StepKind.DECODE, 1, 9, 9) for letter in "abcdefgh")
    line = step_line(EngineStep(1, 0.0, rows=rows), 80)
    assert width(line) <= 80
    assert "a0123456 b0123456" in line


def test_ids_that_others_chose_are_literal() -> None:
    line = step_line(EngineStep(1, 0.0, rows=(StepRow("\x1b[31mred\n", StepKind.DECODE, 1, 0, 1),)), 80)
    assert "\x1b" not in line
    assert "\n" not in line
    snapshot = BlockSnapshot(1, tables=(BlockTable("\x1b[31mred", (1,)),), waiting=(StepWaiting("\x07", 3),))
    assert not any("\x1b" in text or "\x07" in text for text in block_lines(snapshot, "w", 80))


@given(st.lists(st.text("ab#-0", min_size=1, max_size=20), max_size=8, unique=True))
def test_short_ids_are_told_apart(ids: list[str]) -> None:
    assert len(set(shortened(ids))) == len(ids)


def test_how_a_trace_stands() -> None:
    assert trace_words(TraceState(TraceMode.FULL, step=9, first_kept=3)) == "trace full, step 9, kept from 3, 0 dropped"
    assert trace_words(TraceState(TraceMode.SAMPLED, 8, dropped=2)) == "trace every 8, step 0, none kept, 2 dropped"
    assert trace_words(TraceState(unavailable="vLLM 0.99")) == "no trace: vLLM 0.99"


def test_blocks_with_what_is_shared_and_the_sums() -> None:
    lines = list(block_lines(SNAPSHOT, "tiny-1", None))
    assert lines[:2] == [
        "worker/tiny-1 after step 812: 40 blocks of 32 tokens",
        "9 used + 3 cached-free + 28 free = 40 (22% used, 3 saved by sharing)",
    ]
    table = [line.split() for line in lines if line.startswith("req-")]
    assert table == [
        ["req-a", "136", "5", "3", "1-3*", "26-27"],
        ["req-b", "200", "7", "3", "1-3*", "30", "29", "28", "31"],
    ]
    assert lines[-3:] == ["shared      1-3* by 2", "cached-free 10-12", "waiting     req-w (388 tokens)"]
    assert all(width(line) <= 40 for line in block_lines(SNAPSHOT, "tiny-1", 40) if line.startswith("req-"))


def test_an_empty_cache() -> None:
    lines = list(block_lines(BlockSnapshot(0, block_size=32, total_blocks=4, free_blocks=4), "w", 80))
    assert (
        lines[1]
        == sums(BlockSnapshot(0, total_blocks=4, free_blocks=4))
        == "0 used + 0 cached-free + 4 free = 4 (0% used)"
    )
    assert [line.split()[-1] for line in lines[-3:]] == ["–"] * 3


@given(st.lists(st.integers(1, 60), max_size=30), st.sets(st.integers(1, 60)))
def test_runs_say_every_block_in_order(blocks: list[int], shared: set[int]) -> None:
    back: list[int] = []
    for run in runs(blocks, shared).split():
        begin, _, end = run.rstrip("*").partition("-")
        numbers = list(range(int(begin), int(end or begin) + 1))
        assert all((number in shared) == run.endswith("*") for number in numbers)
        back += numbers
    assert back == blocks
