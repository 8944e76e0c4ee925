"""The grid of requests and steps, and how it is drawn."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.tui.live.batch import Column, GridRow, Mark, Sort, Standing, columns, rows
from console.tui.live.steps import Moment, StepLog, Tape
from console.tui.render.block_map import Use, cells, lines_wanted, map_head, map_lines, shape
from console.tui.render.look import PLAIN, RICH_LOOK, SIXTEEN_COLOURS, Look
from console.tui.render.spans import Span, width_of
from console.tui.render.step_grid import layout, legend, row_line, ruler, times, tokens, uses
from console.tui.render.step_head import Age, Limits, head, needed, needs, queue_line
from control_plane.contracts.step import (
    BlockSnapshot,
    BlockTable,
    EngineStep,
    StepFinished,
    StepFrame,
    StepKind,
    StepRow,
    StepWaiting,
    TraceMode,
    TraceState,
)
from tests.snapshots.steps import busy

PLAIN_LOOK = Look(SIXTEEN_COLOURS, PLAIN, "ansi-dark")
P, L, D = StepKind.PREFILL, StepKind.LAST_PREFILL, StepKind.DECODE
SIGNS = {
    Mark.NONE: " ",
    Mark.CHUNK: "P",
    Mark.LAST_CHUNK: "L",
    Mark.DECODE: "D",
    Mark.FINISHED: "F",
    Mark.ABORTED: "A",
    Mark.FAILED: "E",
    Mark.PREEMPTED: "x",
    Mark.WAITING: ".",
    Mark.HELD: "-",
}


def row(name: str, kind: StepKind = D, **changes: object) -> StepRow:
    return replace(StepRow(name, kind, tokens=1, computed=40, prompt_tokens=40), **changes)  # type: ignore[arg-type]


def step(number: int, *parts: StepRow, **changes: object) -> EngineStep:
    made = EngineStep(number, 1000.0 + number, 0.001, 0.03, sum(part.tokens for part in parts), parts, total_blocks=8)
    return replace(made, **changes)  # type: ignore[arg-type]


def tape(*steps: EngineStep, base: BlockSnapshot | None = None) -> Tape:
    log = StepLog()
    log.take(StepFrame(steps, TraceState(TraceMode.FULL), base or BlockSnapshot(steps[0].step - 1, block_size=32)))
    return log.tape()


def grid(of: Tape, at: int = 0, width: int = 40, sort: Sort = Sort.JOINED) -> list[GridRow]:
    shown = columns(of, len(of.steps) - 1, width)
    moment = of.at(at or of.last)
    assert moment is not None
    return rows(shown, next(i for i, c in enumerate(shown) if c.step is moment.step), moment, of, sort)


def marks(of: Tape, at: int = 0) -> dict[str, str]:
    return {item.request_id: "".join(SIGNS[mark] for mark in item.marks) for item in grid(of, at)}


def text(line: list[Span]) -> str:
    return "".join(piece for piece, _ in line)


LIFE = (
    step(1, row("a", P, joined=True, new_blocks=(1,)), waiting=(StepWaiting("b", 70),), waiting_total=1),
    step(2, row("a", L, new_blocks=(2,)), row("b", P, joined=True, new_blocks=(3, 4, 5))),
    step(3, row("a"), row("b", L)),
    step(4, row("a"), preempted=("b",), waiting=(StepWaiting("b", 71, preempted=True),), waiting_total=1),
    step(5, row("a"), waiting=(StepWaiting("b", 71, preempted=True),), waiting_total=1),
    step(6, row("a"), row("b", L, resumed=True, new_blocks=(3, 4, 5)), finished=(StepFinished("a", "stop", 4, 2),)),
    step(7),
    step(8, row("b"), finished=(StepFinished("b", "abort", 2, 3),)),
)


def test_joins_preemption_resume_ends_and_steps_that_pass_over_one() -> None:
    assert marks(tape(*LIFE)) == {"a": "PLDDDF  ", "b": ".PLx.L-A"}


def test_what_is_said_of_them_belongs_to_the_step_that_is_looked_at() -> None:
    of = tape(*LIFE)
    by_name = {item.request_id: item for item in grid(of, at=4)}
    assert (by_name["a"].note.what, by_name["a"].note.step, by_name["a"].blocks) == ("joined", 1, 2)
    assert by_name["b"].note.what == "preempted"
    assert by_name["b"].waiting == StepWaiting("b", 71, preempted=True)
    assert (by_name["b"].blocks, by_name["b"].context) == (0, 0)
    assert {item.note.what for item in grid(of, at=6)} == {"stop", "resumed"}
    assert [item.standing for item in grid(of, at=8)] == [Standing.ENDED, Standing.ENDED]
    later = {item.request_id: item.standing for item in grid(tape(step(1, row("a")), step(2, row("z"))), at=1)}
    assert later == {"a": Standing.HERE, "z": Standing.YET_TO_COME}


def test_one_that_runs_since_before_the_window() -> None:
    base = BlockSnapshot(4, block_size=32, tables=(BlockTable("old", (1, 2), 50), BlockTable("idle", (3,), 9)))
    of = tape(step(5, row("x", L, joined=True)), step(6, row("old"), row("x")), base=base)
    assert marks(of) == {"old": "-D", "idle": "--", "x": "LD"}


def test_lost_steps_are_a_gap_and_sampled_ones_are_none() -> None:
    def shape_of(*steps: EngineStep) -> list[tuple[int, int, int]]:
        of = tape(*steps)
        return [(c.step.step if c.step else 0, c.lost, c.skipped) for c in columns(of, len(steps) - 1, 20)]

    assert shape_of(step(1), step(2), step(6, dropped=3)) == [(1, 0, 0), (2, 0, 0), (0, 3, 0), (6, 0, 0)]
    assert shape_of(step(1), step(2), step(9)) == [(1, 0, 0), (2, 0, 0), (0, 0, 6), (9, 0, 0)]
    assert shape_of(step(10), step(20), step(30)) == [(10, 0, 0), (20, 0, 0), (30, 0, 0)]
    assert shape_of(step(10), step(20), step(60, dropped=39))[2] == (0, 39, 0)
    mixed = shape_of(step(8), step(9), step(10), step(20), step(30))
    assert mixed == [(8, 0, 0), (9, 0, 0), (10, 0, 0), (0, 0, 9), (20, 0, 0), (30, 0, 0)]


def test_what_was_before_a_gap_does_not_follow_from_what_comes_after() -> None:
    of = tape(step(1, row("a")), step(2, row("a")), step(6, row("a"), row("new", blocks=7), dropped=3))
    assert marks(of) == {"a": "DD-D", "new": "   D"}
    assert {item.request_id: item.blocks for item in grid(of)}["new"] == 7


def test_a_gap_is_seen_in_every_row() -> None:
    of = tape(step(1, row("a")), step(5, row("a"), dropped=3))
    shown = columns(of, 1, 10)
    line = row_line(grid(of)[0], shown, 2, layout(100, priority=False), "", RICH_LOOK)
    assert "█┊█" in text(line)
    assert ("┊", RICH_LOOK.palette.bad) in line


@pytest.mark.parametrize("sort", list(Sort))
def test_sorting(sort: Sort) -> None:
    of = tape(
        step(
            1,
            row("a", joined=True, new_blocks=(1,), computed=30, priority=5),
            row("b", joined=True, new_blocks=(2, 3, 4), computed=20, priority=9),
            row("c", joined=True, new_blocks=(5, 6), computed=90, priority=-5),
        )
    )
    order = {Sort.JOINED: "abc", Sort.BLOCKS: "bca", Sort.CONTEXT: "cab", Sort.PRIORITY: "cab"}
    assert "".join(item.request_id for item in grid(of, sort=sort)) == order[sort]
    assert sort.next() is not sort


@given(st.integers(0, 139), st.integers(1, 90), st.sampled_from(list(Sort)))
@settings(max_examples=30)
def test_the_grid_agrees_with_the_steps(end: int, width: int, sort: Sort) -> None:
    """Every part of a step in sight has its cell, and nobody else has one."""
    of = BUSY
    shown = columns(of, end, width)
    moment = of.at(of.steps[end].step)
    assert moment is not None
    made = {item.request_id: item for item in rows(shown, len(shown) - 1, moment, of, sort)}
    for index, column in enumerate(shown):
        assert column.step is not None
        runs = {part.request_id for part in column.step.rows}
        scheduled = {Mark.CHUNK, Mark.LAST_CHUNK, Mark.DECODE, Mark.FINISHED, Mark.ABORTED}
        assert {name for name, item in made.items() if item.marks[index] in scheduled} == runs
        assert {n for n, item in made.items() if item.marks[index] is Mark.PREEMPTED} == set(column.step.preempted)
    assert sum(item.blocks for item in made.values()) == sum(moment.references.values())


def made_busy() -> Tape:
    _, base, steps = busy()
    return tape(*steps, base=base)


BUSY = made_busy()


class TestBlocks:
    @given(st.integers(1, 140), st.sampled_from([1, 2, 4, 8, 64]))
    @settings(max_examples=40)
    def test_every_block_is_in_one_cell(self, at: int, group: int) -> None:
        moment = BUSY.at(at)
        assert moment is not None
        made = cells(moment, BUSY.badges, group)
        assert len(made) == -(-moment.step.total_blocks // group)
        assert sum(cell.blocks for cell in made) == moment.step.total_blocks
        if group == 1:
            uses_of = [cell.use for cell in made]
            assert uses_of.count(Use.USED) + uses_of.count(Use.SHARED) == moment.step.used_blocks
            assert uses_of.count(Use.CACHED_FREE) == moment.step.cached_free_blocks
            assert uses_of.count(Use.FREE) == moment.step.free_blocks
            assert uses_of.count(Use.SHARED) == sum(count > 1 for count in moment.references.values())

    @given(st.integers(1, 40_000), st.integers(20, 240), st.integers(1, 30))
    def test_the_whole_pool_fits(self, total: int, width: int, height: int) -> None:
        cut = shape(total, width, height)
        in_all = -(-total // cut.group)
        assert -(-in_all // cut.across) <= height
        assert cut.across * cut.wide + 7 < width
        assert cut.group == 1 or cut.wide == 1
        lines = lines_wanted(total, width, height)
        assert shape(total, width, lines).group == 1
        assert lines <= height or cut.group > 1

    def test_letters(self) -> None:
        tables = (BlockTable("one", (1, 2, 3)), BlockTable("two", (1, 4)))
        at = EngineStep(9, 0.0, total_blocks=8, used_blocks=4, cached_free_blocks=1, free_blocks=3)
        moment = Moment(at, 32, tables, {1: 2, 2: 1, 3: 1, 4: 1}, frozenset({6}))
        badges = {"one": 0, "two": 1}
        line = map_lines(moment, badges, None, 16, 1, RICH_LOOK)[0]
        assert text(line) == "     1 Aaab·◌··"
        assert text(map_lines(moment, badges, "two", 16, 1, RICH_LOOK)[0]) == "     1 Baab·◌··"
        assert text(map_lines(moment, badges, None, 16, 1, PLAIN_LOOK)[0]) == "     1 Aaab·°··"
        assert "1 shared A" in text(map_head(moment, 100, 1, RICH_LOOK))
        assert text(map_lines(moment, badges, None, 80, 1, RICH_LOOK)[0]) == "     1  A  a  a  b  ·  ◌  ·  · "

    def test_a_pool_that_counts_from_nought(self) -> None:
        at = EngineStep(1, 0.0, total_blocks=8, used_blocks=1, free_blocks=7)
        moment = Moment(at, 32, (BlockTable("a", (0,)),), {0: 1}, frozenset())
        assert text(map_lines(moment, {}, None, 16, 1, RICH_LOOK)[0]) == "     0 a·······"

    def test_what_is_not_known_is_said(self) -> None:
        at = EngineStep(1, 0.0, total_blocks=800, used_blocks=1, cached_free_blocks=3, free_blocks=796)
        unknown = Moment(at, 32, (BlockTable("a", (1,)),), {1: 1}, None)
        assert "which are cached: –" in text(map_head(unknown, 160, 4, RICH_LOOK))
        lost = replace(unknown, complete=False)
        assert "steps were lost" in text(map_head(lost, 160, 4, RICH_LOOK))
        assert "800 blocks of 32 tokens, 2 a cell: " in text(map_head(unknown, 160, 4, RICH_LOOK))


names = st.one_of(
    st.text(max_size=30),
    st.sampled_from(["日本語のリクエスト", "[red]x[/]", "\x1b[2Jx", "e\u0301" * 9, "🚀🚀🚀🚀🚀🚀"]),
)


@given(names, st.integers(60, 200), st.booleans(), st.sampled_from([RICH_LOOK, PLAIN_LOOK]))
@settings(max_examples=60)
def test_every_line_has_its_width(name: str, width: int, priority: bool, look: Look) -> None:
    of = tape(step(1, row(name, P, joined=True)), step(2, row(name, L), finished=(StepFinished(name, "error"),)))
    parts = layout(width, priority=priority)
    shown = columns(of, 1, parts.steps)
    line = row_line(grid(of)[0], shown, 1, parts, "", look)
    assert width_of(line) == width
    assert width_of(ruler(shown, 1, parts, "request", Sort.JOINED, look)) <= width
    edge = parts.before + parts.steps
    for profile in (times(shown, 1, parts, look), tokens(shown, 1, parts, 0, look), uses(shown, 1, parts, look)):
        assert width_of(profile[:-1]) == edge
    assert width_of(legend(width, look)) <= max(width, 78)


def test_slow_steps_stand_out_and_the_window_is_named() -> None:
    parts = layout(100, priority=False)
    steps = [step(n, row("a"), execute_s=0.3 if n == 7 else 0.03, schedule_s=0.0) for n in range(1, 11)]
    shown = columns(tape(*steps), 9, parts.steps)
    line = times(shown, 9, parts, RICH_LOOK)
    assert [piece for piece, style in line if style.color == RICH_LOOK.palette.watch.color] == ["█"]
    assert text(line).endswith("p50 30ms max 300ms")
    axis = text(ruler(shown, 9, parts, "request", Sort.BLOCKS, RICH_LOOK))
    assert axis.index("▼") == parts.before + parts.steps - 1
    assert axis.split("▼")[0].endswith("1 ─── 10 ") or "10 ▼" in axis
    assert text(ruler(shown, 2, parts, "request", Sort.BLOCKS, RICH_LOOK)).index("▼") == parts.before + parts.steps - 8


class TestQueue:
    def moment(self, *waiting: StepWaiting, **changes: object) -> Moment:
        at = step(1, row("a"), row("b"), waiting=waiting, waiting_total=len(waiting), free_blocks=4, **changes)
        return Moment(replace(at, cached_free_blocks=2), 32)

    def test_what_it_needs_against_what_is_free(self) -> None:
        line = queue_line(self.moment(StepWaiting("e40", 600)), "e40", Limits(), RICH_LOOK)
        assert text(line) == " 1 waiting  next e40: 600 tokens, 19 blocks of 6 to be had"
        assert ("19 blocks", RICH_LOOK.palette.bad) in line
        assert ("4 blocks", RICH_LOOK.palette.text) in queue_line(
            self.moment(StepWaiting("e", 100)), "e", Limits(), RICH_LOOK
        )

    def test_what_is_used_up(self) -> None:
        limits = Limits(seats=2, tokens=2)
        line = text(queue_line(self.moment(StepWaiting("e", 100)), "e", limits, RICH_LOOK))
        assert line.endswith("all 2 seats taken, all 2 tokens of the step spent")

    def test_nobody(self) -> None:
        assert "6 blocks" in text(queue_line(self.moment(), "", Limits(), RICH_LOOK))

    def test_a_block_of_unknown_size(self) -> None:
        assert needed(StepWaiting("e", 31), 32) == 1
        assert needed(StepWaiting("e", 32), 32) == 2
        assert needed(StepWaiting("e", 32), 0) is None
        assert needs(StepWaiting("e", 32), Moment(step(1), 0)) == "needs 32 tokens"


def test_the_head() -> None:
    moment = BUSY.at(140)
    assert moment is not None
    full = TraceState(TraceMode.FULL)
    live = text(head(moment, None, Age(0.1), full, 120, RICH_LOOK))
    assert live.startswith(" ▶ step 140  27ms (280µs to schedule)  8 tokens  8 in batch  0 waiting")
    assert live.endswith("trace full, 0 dropped ")
    assert "idle 12s" in text(head(moment, None, Age(12.3, idle=True), full, 120, RICH_LOOK))
    assert "step 140, 12s ago" in text(head(moment, None, Age(12.3), full, 120, RICH_LOOK))
    assert "‖ step 140, 3 before the end" in text(head(moment, 3, Age(12.3), full, 120, RICH_LOOK))
    assert text(head(moment, 0, Age(0), TraceState(TraceMode.SAMPLED, 10, dropped=7), 80, RICH_LOOK)).endswith(
        "trace 1 in 10, 7 dropped "
    )
    assert "trace off" in text(head(moment, 0, Age(0), TraceState(), 80, RICH_LOOK))


def test_columns_of_nothing() -> None:
    assert columns(Tape(), -1, 20) == []
    assert columns(BUSY, 5, 0) == []
    assert columns(BUSY, 5, 2) == [Column(BUSY.steps[4]), Column(BUSY.steps[5])]


def test_of_one_that_has_not_come_yet_no_priority_is_told() -> None:
    of = tape(step(1, row("a", joined=True, priority=-10)), step(2, row("a"), row("b", joined=True, priority=-10)))
    assert {item.request_id: item.priority for item in grid(of, at=1)} == {"a": -10, "b": None}
