"""The last steps of an engine: tables that equal the engine's own, time travel, gaps, limits of the ring."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from console.kv_ledger import KvLedger
from console.tui.live.badges import LETTERS, Badges, letter
from console.tui.live.playhead import Playhead
from console.tui.live.steps import Moment, StepLog
from control_plane.contracts.step import (
    BlockSnapshot,
    EngineStep,
    StepFrame,
    StepRow,
    TraceMode,
    TraceState,
)
from tests.snapshots.steps import Job, SmallEngine, busy

FULL = TraceState(TraceMode.FULL)


@st.composite
def jobs(draw: st.DrawFn) -> list[tuple[int, Job]]:
    """Requests, and the step before which each of them comes."""
    number = draw(st.integers(1, 12))
    made = []
    for index in range(number):
        shared = draw(st.booleans())
        job = Job(
            f"r{index}",
            prompt=draw(st.integers(1, 60)),
            outputs=draw(st.integers(1, 30)),
            prefix="p" if shared else "",
            prefix_blocks=draw(st.integers(1, 4)) if shared else 0,
        )
        made.append((draw(st.integers(0, 30)), job))
    return made


def play(arrivals: list[tuple[int, Job]], steps: int = 60) -> tuple[list[EngineStep], list[BlockSnapshot]]:
    """Steps, and the engine's own tables before the first and after each of them. Small enough to run out of blocks."""
    engine = SmallEngine(total=24, block_size=8, seats=5, budget=24)
    truth, made = [engine.snapshot()], []
    for number in range(steps):
        for at, job in arrivals:
            if at == number:
                engine.add(job)
        made.append(engine.run())
        truth.append(engine.snapshot())
    return made, truth


def facts(moment: Moment) -> tuple[object, ...]:
    held = {table.request_id: table.blocks for table in moment.tables}
    shared = {block: count for block, count in moment.references.items() if count > 1}
    return held, shared, moment.cached_free


def told(snapshot: BlockSnapshot) -> tuple[object, ...]:
    held = {table.request_id: table.blocks for table in snapshot.tables}
    return held, {item.block: item.references for item in snapshot.shared}, frozenset(snapshot.cached_free)


@given(jobs(), st.integers(1, 20), st.integers(0, 50))
@settings(max_examples=25)
def test_after_every_step_the_tables_are_the_engines_own(
    arrivals: list[tuple[int, Job]], every: int, late: int
) -> None:
    """Whenever one begins to watch, and wherever one goes back to."""
    steps, truth = play(arrivals)
    log = StepLog(every=every)
    log.take(StepFrame((), FULL, truth[late]))
    log.take(StepFrame(tuple(steps[late:]), FULL))
    tape = log.tape()
    assert (tape.first, tape.last) == (late + 1, len(steps))
    for step in steps[late:]:
        moment = tape.at(step.step)
        assert moment is not None
        assert moment.step is step
        assert moment.complete
        assert facts(moment) == told(truth[step.step])
    assert not log.doubtful


@given(jobs(), st.integers(1, 20), st.integers(5, 50))
@settings(max_examples=25)
def test_going_back_equals_a_replay_from_the_start(arrivals: list[tuple[int, Job]], every: int, most: int) -> None:
    steps, truth = play(arrivals)
    log = StepLog(most, every)
    log.take(StepFrame(tuple(steps), FULL, truth[0]))
    tape = log.tape()
    assert most <= len(tape.steps) <= most + 2 * every
    replay = KvLedger(truth[0])
    for step in steps:
        replay.apply(step)
        if step.step >= tape.first:
            moment = tape.at(step.step)
            assert moment is not None
            assert moment.tables == replay.tables()
            assert moment.references == replay.references
            assert moment.cached_free == replay.cached_free


def test_steps_of_large_batches_go_sooner_and_the_rest_can_still_be_told() -> None:
    _, base, steps = busy(90)
    every, most_rows = 4, 40
    log = StepLog(every=every, most_rows=most_rows)
    log.take(StepFrame((), FULL, base))
    largest = max(len(step.rows) for step in steps)
    for step in steps:
        log.take(StepFrame((step,), FULL))
        assert sum(len(each.rows) for each in log.tape().steps) < most_rows + every * largest
    tape = log.tape()
    assert every <= len(tape.steps) < len(steps)
    replay = KvLedger(base)
    for step in steps:
        replay.apply(step)
        if step.step >= tape.first:
            moment = tape.at(step.step)
            assert moment is not None
            assert (moment.tables, moment.complete) == (replay.tables(), True)


def test_a_tape_stands_still_while_more_is_collected() -> None:
    engine, base, steps = busy(60)
    log = StepLog()
    log.take(StepFrame(tuple(steps[:40]), FULL, base))
    tape = log.tape()
    before = tape.at(40)
    log.take(StepFrame(tuple(steps[40:]), FULL))
    assert (tape.last, log.tape().last) == (40, 60)
    assert tape.at(40) == before
    assert tape.at(99) == before
    assert engine.step == 60


def test_lost_steps_are_noticed_and_a_snapshot_mends_them() -> None:
    engine, base, steps = busy(80)
    lost = [replace(step, dropped=4 if step.step > 30 else 0) for step in steps if step.step not in range(27, 31)]
    log = StepLog()
    log.take(StepFrame(tuple(lost), FULL, base))
    assert log.doubtful
    moment = log.tape().at(80)
    assert moment is not None
    assert not moment.complete or moment.cached_free is None
    log.correct(engine.snapshot())
    assert not log.doubtful
    moment = log.tape().at(80)
    assert moment is not None
    assert facts(moment) == told(engine.snapshot())
    before = log.tape().at(26)
    assert before is not None
    assert before.complete
    step = engine.run()
    log.take(StepFrame((step,), FULL))
    after = log.tape().at(81)
    assert after is not None
    assert facts(after) == told(engine.snapshot())


def test_a_snapshot_that_is_older_than_what_is_known_changes_nothing() -> None:
    _, base, steps = busy(300)
    log = StepLog()
    log.take(StepFrame(tuple(steps), FULL, base))
    before = log.tape()
    log.correct(base)
    assert log.tape() is before


def test_a_new_base_begins_anew() -> None:
    _, base, steps = busy(30)
    log = StepLog()
    log.take(StepFrame(tuple(steps), FULL, base))
    log.take(StepFrame(tuple(steps[:3]), TraceState(TraceMode.SAMPLED, 10), base))
    assert (log.tape().first, log.tape().last) == (1, 3)
    assert log.trace.mode is TraceMode.SAMPLED


def test_steps_that_come_again_count_once() -> None:
    _, base, steps = busy(30)
    log = StepLog()
    log.take(StepFrame(tuple(steps), FULL, base))
    log.take(StepFrame(tuple(steps[10:]), FULL))
    assert len(log.tape().steps) == 30


def test_an_engine_without_a_cache_has_nothing_cached() -> None:
    row = StepRow("a", prompt_tokens=64, tokens=64, computed=0, kind=busy(1)[2][0].rows[0].kind, joined=True)
    first = EngineStep(1, 0.0, rows=(replace(row, new_blocks=(1, 2)),), total_blocks=4, used_blocks=2, free_blocks=2)
    last = EngineStep(2, 0.0, preempted=("a",), total_blocks=4, free_blocks=4)
    log = StepLog()
    log.take(StepFrame((first, last), FULL, BlockSnapshot(0, block_size=32, total_blocks=4, free_blocks=4)))
    moment = log.tape().at(2)
    assert moment is not None
    assert moment.cached_free == frozenset()


class TestPlayhead:
    def log(self, steps: int) -> tuple[StepLog, SmallEngine]:
        engine, base, made = busy(steps)
        log = StepLog()
        log.take(StepFrame(tuple(made), FULL, base))
        return log, engine

    def test_live_it_is_at_the_end(self) -> None:
        log, engine = self.log(20)
        head = Playhead()
        assert head.step(log) == 20
        log.take(StepFrame((engine.run(),), FULL))
        assert head.step(log) == 21
        assert head.window(log, 10) == (20, 20)

    def test_paused_it_stands_still_and_moves_within_the_ring(self) -> None:
        log, engine = self.log(20)
        head = Playhead()
        head.move(log, -1)
        assert (head.paused, head.step(log)) == (True, 19)
        log.take(StepFrame((engine.run(), engine.run()), FULL))
        assert head.tape(log).last == 20
        head.move(log, -100)
        assert head.step(log) == 1
        head.move(log, 10)
        assert head.step(log) == 11
        head.move(log, 100)
        assert head.step(log) == 22
        head.move(log, 1)
        assert head.step(log) == 22
        head.live()
        assert (head.paused, head.step(log)) == (False, 22)

    def test_to_a_number(self) -> None:
        log, engine = self.log(20)
        head = Playhead()
        assert head.go(log, 7)
        assert head.step(log) == 7
        assert not head.go(log, 0)
        assert head.step(log) == 1
        for _ in range(5):
            log.take(StepFrame((engine.run(),), FULL))
        assert head.go(log, 24)
        assert not head.go(log, 99)
        assert head.step(log) == 25

    def test_what_comes_after_stays_in_sight(self) -> None:
        log, _ = self.log(60)
        head = Playhead()
        head.pause(log)
        head.move(log, -10)
        assert head.window(log, 30) == (59, 49)
        head.move(log, -30)
        end, at = head.window(log, 30)
        assert at == 19
        assert end - at == 25
        head.move(log, 1)
        assert head.window(log, 30) == (end, 20)

    def test_it_is_kept_when_the_worker_begins_anew(self) -> None:
        log, _ = self.log(20)
        head = Playhead()
        head.move(log, -3)
        engine, base, made = busy(5)
        log.take(StepFrame(tuple(made), FULL, replace(base, step=0)))
        head.move(log, 50)
        assert head.step(log) == 20
        assert engine.step == 5

    def test_without_steps_there_is_nowhere_to_go(self) -> None:
        log, head = StepLog(), Playhead()
        head.move(log, -1)
        assert not head.go(log, 3)
        assert (head.paused, head.step(log)) == (False, 0)
        assert head.window(log, 10) == (-1, -1)


def test_letters_of_those_who_run_differ_while_there_are_some_left() -> None:
    badges = Badges()
    for number in range(LETTERS):
        badges.see(f"r{number}", number)
    assert len({letter(badge) for badge in badges.given.values()}) == LETTERS
    badges.end("r3")
    badges.see("next", 30)
    assert letter(badges.given["next"]) == letter(badges.given["r3"])
    badges.see("one more", 31)
    assert len(set(badges.given.values())) == LETTERS + 2
    badges.forget_before(5)
    assert "r4" not in badges.given
    assert "r5" in badges.given
