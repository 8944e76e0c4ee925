"""The step trace on vLLM's own schedulers, in step with the model and one step ahead of it, without a model."""

from __future__ import annotations

import random
from typing import Any

import pytest

from control_plane.contracts.step import EngineStep, StepKind, StepRow
from tests.real_vllm.scheduler_stand import EOS, Stand, check
from workers.engine.step_payload import decode
from workers.engine.vllm_tracer import FULL, OFF, SAMPLED, Tracer

pytestmark = pytest.mark.forks

SHARED = list(range(100, 196))  # three blocks


@pytest.fixture(params=[False, True], ids=["in step", "one ahead"])
def ahead(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def stand(ahead: bool) -> Stand:
    return Stand(ahead=ahead)


def rows_of(steps: list[EngineStep], name: str) -> list[tuple[int, StepRow]]:
    return [(step.step, row) for step in steps for row in step.rows if row.request_id == name]


def test_joins_chunks_cached_prefixes_and_leaves(stand: Stand) -> None:
    stand.add("a", [*SHARED, *range(1000, 1040)], 20)
    stand.add("b", [*SHARED, *range(2000, 2300)], 4)
    steps = stand.run()
    check(stand)
    (_, first), *a = rows_of(steps, "a")
    assert (first.kind, first.joined, first.tokens, first.computed) == (StepKind.PREFILL, True, 128, 0)
    assert (a[0][1].kind, a[0][1].tokens, a[0][1].computed) == (StepKind.LAST_PREFILL, 8, 128)
    assert [row.kind for _, row in a[1:]] == [StepKind.DECODE] * 19
    assert [row.output_tokens for _, row in a[1:]] == list(range(1, 20))
    assert not any(row.joined or row.resumed for _, row in a)
    joined, b = rows_of(steps, "b")[0]
    assert (joined, b.joined, b.cached_tokens, b.computed, b.tokens) == (2, True, 96, 96, 120)
    assert b.new_blocks[:3] == first.new_blocks[:3]  # shared
    assert {
        (finished.request_id, finished.reason, finished.output_tokens) for s in steps for finished in s.finished
    } == {
        ("a", "length", 20),
        ("b", "length", 4),
    }
    [(left, freed)] = [(s.step, f.freed_blocks) for s in steps for f in s.finished if f.request_id == "b"]
    assert freed == rows_of(steps, "b")[-1][1].blocks == 13
    # One ahead, the next step was scheduled before the last token was there.
    assert left == rows_of(steps, "b")[-1][0] + stand.ahead
    assert [step.step for step in steps] == list(range(1, len(steps) + 1))
    assert steps[-1].used_blocks == 0
    assert steps[-1].cached_free_blocks > 10


def test_a_request_that_finishes_in_its_first_step(stand: Stand) -> None:
    stand.add("short", range(10, 20), 1)
    steps = stand.run()
    check(stand)
    assert [(s.step, s.rows[0].kind, s.finished[0].request_id, s.used_blocks) for s in steps] == [
        (1, StepKind.LAST_PREFILL, "short", 0)
    ]


def test_a_stop_token_is_a_stop(stand: Stand) -> None:
    stand.add("stopped", range(10, 20), 50)
    stand.turn()
    while stand.scheduler.has_requests():
        stand.schedule()
        stand.land(EOS)
    while stand._flying:
        stand.land()
    check(stand)
    [finished] = [finished for step in stand.steps for finished in step.finished]
    assert finished.reason == "stop"


def test_choices_are_told_apart(stand: Stand) -> None:
    for choice in range(3):
        stand.add("call", range(10, 20), 2, choice=choice)
    steps = stand.run()
    check(stand)
    assert [row.request_id for row in steps[0].rows] == ["call", "call#1", "call#2"]


def test_a_name_that_lives_already_is_not_given_twice(stand: Stand) -> None:
    stand.add("same", range(10, 20), 8)
    second = stand.add("same", range(30, 40), 4)
    steps = stand.run()
    assert [row.request_id for row in steps[0].rows] == ["same", second]


def test_preemption_and_what_is_computed_again(ahead: bool) -> None:
    stand = Stand(blocks=17, ahead=ahead)
    stand.add("kept", range(100, 300), 60, priority=-1)
    stand.add("victim", range(1000, 1200), 60)
    steps = stand.run()
    check(stand)
    [preempted] = [step for step in steps if step.preempted]
    assert preempted.preempted == ("victim",)
    assert [(each.request_id, each.preempted) for each in preempted.waiting] == [("victim", True)]
    assert "victim" not in [row.request_id for row in preempted.rows]
    [(at, again)] = [(number, row) for number, row in rows_of(steps, "victim") if row.resumed]
    assert at > preempted.step
    assert again.kind in (StepKind.PREFILL, StepKind.LAST_PREFILL)
    assert len(again.new_blocks) == again.blocks
    assert again.cached_tokens == 0  # when it joined, not when it came back
    after = [row for number, row in rows_of(steps, "victim") if number >= at]
    kinds = [row.kind for row in after]
    assert kinds == sorted(kinds, key=lambda kind: kind.value)
    assert kinds.count(StepKind.LAST_PREFILL) == 1


def test_aborts_in_the_batch_in_the_queue_and_between_steps(ahead: bool) -> None:
    stand = Stand(sequences=2, ahead=ahead)
    for name in ("one", "two", "queued", "later"):
        stand.add(name, range(10, 60), 30)
    stand.turn()
    stand.turn()
    assert [each.request_id for each in stand.steps[0].waiting] == ["queued", "later"]
    assert (stand.steps[0].waiting_total, stand.steps[0].waiting[0].tokens) == (2, 50)
    stand.schedule()
    stand.abort("one")  # while its step runs
    stand.abort("queued")
    stand.land()
    stand.run(between=lambda turn: stand.abort("two") if turn == 2 else None)
    check(stand)
    reasons = {finished.request_id: finished.reason for step in stand.steps for finished in step.finished}
    assert reasons == {"one": "abort", "two": "abort", "queued": "abort", "later": "length"}
    assert all(not each.waiting for each in stand.steps[-5:])


def test_the_head_of_a_long_queue(stand: Stand) -> None:
    for number in range(300):
        stand.add(f"r{number}", range(10, 20), 3, priority=-(number % 7))
    stand.turn()
    stand.run(2000)
    step = stand.steps[0]
    waiting = sorted(range(300), key=lambda number: (-(number % 7), number))[len(step.rows) :]
    assert step.waiting_total == len(waiting) == 300 - len(step.rows)
    assert [each.request_id for each in step.waiting] == [f"r{number}" for number in waiting[:64]]
    check(stand)


def traffic(stand: Stand, seed: int, mode: int = FULL) -> None:
    """Arrivals, shared prefixes, priorities, aborts and pressure, and a change of mode now and then."""
    chance = random.Random(seed)
    alive: list[str] = []
    stems = [[chance.randrange(10, 4000) for _ in range(200)] for _ in range(3)]
    numbers = iter(range(10_000))

    def between(turn: int) -> None:
        if turn < 120 and chance.random() < 0.35:
            name = f"q{next(numbers)}"
            prompt = chance.choice(stems)[: chance.randrange(1, 200)] + [
                chance.randrange(10, 4000) for _ in range(chance.randrange(1, 120))
            ]
            stand.add(name, prompt, chance.randrange(1, 60), priority=chance.randrange(-2, 3))
            alive.append(name)
        if alive and chance.random() < 0.05:
            stand.abort(alive.pop(chance.randrange(len(alive))))
        if mode != FULL and chance.random() < 0.1:
            stand.tracer.switch(chance.choice((OFF, SAMPLED, FULL)), chance.randrange(2, 6))

    for turn in range(120):
        between(turn)
        stand.turn()
    stand.run(3000, lambda turn: between(120 + turn))


@pytest.mark.parametrize("seed", range(6))
def test_the_tables_are_the_schedulers_own_at_every_step(ahead: bool, seed: int) -> None:
    stand = Stand(blocks=random.Random(seed).randrange(20, 60), ahead=ahead)
    traffic(stand, seed)
    check(stand)
    assert len(stand.steps) == stand.tracer.step > 50
    assert stand.steps[-1].used_blocks == 0
    assert not stand.tracer._seen
    assert not stand.tracer._names


@pytest.mark.parametrize("seed", range(6))
def test_they_are_so_whatever_was_left_out_between(ahead: bool, seed: int) -> None:
    stand = Stand(blocks=40, ahead=ahead)
    traffic(stand, seed, SAMPLED)
    check_sampled(stand)
    assert 0 < len(stand.steps) < stand.tracer.step
    assert all(step.dropped == 0 for step in stand.steps)


def check_sampled(stand: Stand) -> None:
    """A request that no step has told yet is in the scheduler's tables only; all others are as they are there."""
    from control_plane.contracts.block_tables import BlockTables

    tables = BlockTables()
    for step in stand.steps:
        tables.apply(step)
        truth = stand.truths[step.step].tables
        mine = {table.request_id: table.blocks for table in tables.tables()}
        told = {row.request_id for row in step.rows}
        assert set(mine) <= set(truth), step.step
        for name, blocks in mine.items():
            assert blocks == truth[name][: len(blocks)], (step.step, name)
            assert name not in told or blocks == truth[name], (step.step, name)


def test_switched_off_nothing_is_told_and_ends_are_told_after(stand: Stand) -> None:
    stand.add("seen", range(10, 60), 30)
    stand.add("short", range(10, 50), 6)
    stand.turn()
    stand.turn()
    assert stand.tracer.switch(OFF, 1)[0] == OFF
    told = len(stand.steps) + stand.ahead
    stand.add("unseen", range(400, 450), 2)
    for _ in range(12):
        stand.turn()
    assert len(stand.steps) == told
    stand.tracer.switch(FULL, 1)
    stand.run()
    check_sampled(stand)
    after = stand.steps[told]
    assert [finished.request_id for finished in after.finished] == ["short"]
    assert not any(row.joined for row in after.rows)
    assert after.step > told + 8
    assert "unseen" not in {finished.request_id for step in stand.steps for finished in step.finished}


def test_a_snapshot_is_the_scheduler_as_it_is(stand: Stand) -> None:
    stand.add("a", [*SHARED, *range(1000, 1040)], 20)
    stand.add("b", [*SHARED, *range(2000, 2300)], 40)
    stand.add("c", [*SHARED, *range(3000, 3010)], 30)
    for _ in range(7):
        stand.turn()
    before = stand.snapshot()
    truth = stand.truth()
    assert {table.request_id: table.blocks for table in before.tables} == truth.tables
    assert (before.used_blocks, before.cached_free_blocks, before.free_blocks) == (
        truth.used,
        truth.cached_free,
        truth.free,
    )
    assert before.used_blocks + before.cached_free_blocks + before.free_blocks == before.total_blocks == 64
    assert len(before.cached_free) == before.cached_free_blocks
    assert {(each.block, each.references) for each in before.shared} >= {(1, 3), (2, 3), (3, 3)}
    assert before.block_size == 32
    stand.run()
    if not stand.ahead:
        check(stand)
    assert stand.snapshot().tables == ()


@pytest.mark.parametrize("by", ["abort", "length"])
def test_who_ends_after_a_snapshot_is_told_with_a_step_that_it_has_not(by: str) -> None:
    """Whoever has the snapshot passes over the steps up to its own: such an end would never be heard."""
    stand = Stand(ahead=True)
    stand.add("a", range(10, 20), 1)
    stand.schedule()
    held = stand.snapshot()
    assert [table.request_id for table in held.tables] == ["a"]
    stand.schedule()
    assert stand.tracer.step == held.step, "its only token is on the way"
    if by == "abort":
        stand.abort("a")
    stand.run()
    assert [(step.step, end.request_id) for step in stand.steps for end in step.finished] == [(held.step + 1, "a")]


def test_a_trace_that_fails_loses_steps_and_nothing_else(ahead: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    broken: list[int] = []
    rows = Tracer._rows

    def sometimes(self: Tracer, *args: Any) -> Any:
        told = rows(self, *args)
        if self.step in (5, 6, 20):
            broken.append(self.step)
            raise KeyError("of the test")
        return told

    monkeypatch.setattr(Tracer, "_rows", sometimes)
    stand = Stand(blocks=30, ahead=ahead)
    traffic(stand, 3)
    assert broken == [5, 6, 20]
    check_sampled(stand)
    lost = [step.dropped for step in stand.steps]
    assert (lost[0], lost[-1]) == (0, 3)
    assert not {5, 6, 20} & {step.step for step in stand.steps}


def test_a_trace_that_always_fails_ends_and_says_why(ahead: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(self: Tracer, *args: Any) -> Any:
        raise ValueError("of the test")

    monkeypatch.setattr(Tracer, "_rows", never)
    stand = Stand(ahead=ahead)
    stand.add("a", range(10, 60), 60)
    stand.run()
    assert stand.steps == []
    assert stand.tracer.state[0] == OFF
    assert stand.tracer.problem == "the trace failed 32 times in a row: ValueError: of the test"
    assert [decode(data) for data in stand.payloads] == [[32, stand.tracer.problem]]
    assert stand.scheduler.get_request_counts() == (0, 0)


def test_another_version_is_left_alone(ahead: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    import vllm

    monkeypatch.setattr(vllm, "__version__", "0.99.1")
    stand = Stand(ahead=ahead)
    stand.add("a", range(10, 60), 5)
    assert stand.run() == []
    assert stand.tracer.problem == "the inside of vLLM 0.99.1 is not known here; supported is 0.32"
    assert stand.tracer.switch(FULL, 1)[0] == OFF


def test_a_missing_part_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.v1.core.block_pool import BlockPool

    from workers.engine.vllm_trace import unsupported

    assert unsupported("0.32.1+cpu") == ""
    monkeypatch.delattr(BlockPool, "_insert_block_hash")
    assert unsupported("0.32.0") == "vLLM 0.32.0 lacks BlockPool._insert_block_hash; supported is 0.32"
