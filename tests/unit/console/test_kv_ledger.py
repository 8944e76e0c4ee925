"""Who holds which block: as a small engine has it that keeps the truth, shares blocks, preempts, and loses steps."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from console.kv_ledger import KvLedger
from control_plane.contracts.step import (
    BlockSnapshot,
    BlockTable,
    EngineStep,
    SharedBlock,
    StepFinished,
    StepKind,
    StepRow,
    StepWaiting,
)

SIZE = 4
NAMES = ("a", "b", "c", "d")
ONE = Counter(range(64))
EMPTY = BlockSnapshot(0, block_size=SIZE, total_blocks=64, free_blocks=64)


@dataclass(frozen=True, slots=True)
class Turn:
    """What one request does in a step: begin with ``hits`` blocks that another's content is in, grow, be preempted,
    end. ``blocks`` are fresh ones; the last is full or not."""

    name: str
    blocks: int = 0
    hits: int = 0
    full: bool = True
    preempted: bool = False
    ends: bool = False


@dataclass
class Truth:
    """An engine that tells its steps as vLLM's trace does: after a lost one every table is told anew with its next
    row, and ends and preemptions come with the next step. ``followed`` is all that anybody can know."""

    tables: dict[str, list[int]] = field(default_factory=dict)
    computed: dict[str, int] = field(default_factory=dict)
    content: set[int] = field(default_factory=set)
    followed: dict[str, tuple[int, ...]] = field(default_factory=dict)
    told: dict[str, int] = field(default_factory=dict)
    preempted: list[str] = field(default_factory=list)
    finished: list[StepFinished] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    step: int = 0
    _after: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def references(self) -> Counter[int]:
        return Counter(block for table in self.tables.values() for block in table)

    @property
    def cached_free(self) -> frozenset[int]:
        return frozenset(self.content - set(self.references))

    def run(self, turns: dict[str, Turn], *, lost: bool) -> EngineStep | None:
        self.step += 1
        for turn in turns.values():
            if turn.preempted and turn.name in self.tables:
                del self.tables[turn.name]
                self.preempted.append(turn.name)
        ending = {end.request_id for end in self.finished}
        rows = [self._row(turn) for turn in turns.values() if turn.name not in ending]
        for turn in turns.values():
            if turn.ends and turn.name in self.tables:
                self.finished.append(StepFinished(turn.name, "stop"))
                del self.tables[turn.name]
                self.known.discard(turn.name)
        if lost:
            self.told.clear()
            return None
        for name in self.preempted:
            self.followed.pop(name, None)
        self.followed.update((row.request_id, self._after[row.request_id]) for row in rows)
        for end in self.finished:
            self.followed.pop(end.request_id, None)
            self.told.pop(end.request_id, None)
        used, cached = len(self.references), len(self.cached_free)
        step = EngineStep(
            self.step,
            float(self.step),
            0.25,
            0.5,
            rows=tuple(rows),
            waiting=(StepWaiting("z", 7),),
            preempted=tuple(self.preempted),
            finished=tuple(self.finished),
            total_blocks=64,
            used_blocks=used,
            cached_free_blocks=cached,
            free_blocks=64 - used - cached,
        )
        self.preempted, self.finished = [], []
        return step

    def _row(self, turn: Turn) -> StepRow:
        name = turn.name
        begins = name not in self.tables
        if begins:
            # Hits are the first blocks of some prompt: those with the lowest numbers will do.
            self.tables[name] = sorted(self.content)[: turn.hits]
            self.computed[name] = len(self.tables[name]) * SIZE
            self.told[name] = 0
        table, before = self.tables[name], self.computed[name]
        for _ in range(turn.blocks + begins):
            block = min(set(range(64)) - set(self.references))
            self.content.discard(block)
            table.append(block)
        self.computed[name] = max(before, len(table) * SIZE - (0 if turn.full else 1))
        self.content.update(table[: self.computed[name] // SIZE])
        known, self.told[name] = self.told.get(name, 0), len(table)
        self._after[name] = tuple(table)
        joined, resumed = begins and name not in self.known, begins and name in self.known
        self.known.add(name)
        return StepRow(
            name,
            StepKind.DECODE,
            self.computed[name] - before,
            before,
            8,
            joined=joined,
            resumed=resumed,
            new_blocks=tuple(table[known:]),
            blocks=len(table),
        )


turns = st.builds(
    Turn,
    name=st.sampled_from(NAMES),
    blocks=st.integers(0, 2),
    hits=st.integers(0, 2),
    full=st.booleans(),
    preempted=st.integers(0, 5).map(lambda number: number == 0),
    ends=st.integers(0, 4).map(lambda number: number == 0),
)
together = st.lists(turns, min_size=1, max_size=4).map(lambda made: {turn.name: turn for turn in made})
games = st.lists(st.tuples(together, st.integers(0, 3).map(lambda number: number == 0), st.booleans()), max_size=15)


@settings(max_examples=150, deadline=None)
@given(games)
def test_every_block_is_accounted_for_whatever_steps_are_lost(
    game: list[tuple[dict[str, Turn], bool, bool]],
) -> None:
    truth, ledger = Truth(), KvLedger(EMPTY)
    for made, lost, again in game:
        step = truth.run(made, lost=lost)
        if step is None:
            continue
        ledger.apply(step)
        references = Counter(block for blocks in truth.followed.values() for block in blocks)
        assert {table.request_id: table.blocks for table in ledger.tables()} == truth.followed
        assert ledger.references == references
        assert ledger.complete == (len(references) == len(truth.references))
        state = ledger.snapshot()
        assert state.shared == tuple(SharedBlock(block, references[block]) for block in sorted(references - ONE))
        assert references.keys().isdisjoint(state.cached_free)
        assert (state.step, state.taken_unix) == (step.step, step.step + 0.75)
        assert (state.used_blocks, state.cached_free_blocks, state.free_blocks) == (
            step.used_blocks,
            step.cached_free_blocks,
            step.free_blocks,
        )
        assert state.waiting == step.waiting
        if again:
            ledger = KvLedger(state)


@settings(max_examples=100, deadline=None)
@given(games)
def test_without_losses_the_free_blocks_with_content_are_known_by_number(
    game: list[tuple[dict[str, Turn], bool, bool]],
) -> None:
    truth, ledger = Truth(), KvLedger(EMPTY)
    for made, again, _ in game:
        step = truth.run(made, lost=False)
        assert step is not None
        ledger.apply(step)
        assert ledger.complete
        assert ledger.references == truth.references
        assert ledger.cached_free == truth.cached_free
        if again:
            ledger = KvLedger(ledger.snapshot())


def row(name: str, *blocks: int, computed: int = 0, count: int = 0, joined: bool = False) -> StepRow:
    return StepRow(name, StepKind.DECODE, SIZE, computed, 8, joined=joined, new_blocks=blocks, blocks=count)


def test_a_table_that_is_told_anew_holds_each_of_its_blocks_once() -> None:
    """As after a lost step: neither joined nor resumed, and all of its blocks are new."""
    ledger = KvLedger(EMPTY)
    ledger.apply(EngineStep(1, 0.0, rows=(row("a", 1, joined=True, count=1),), used_blocks=1))
    ledger.apply(EngineStep(3, 0.0, rows=(row("a", 1, 2, computed=4, count=2),), used_blocks=2))
    assert ledger.references == {1: 1, 2: 1}
    ledger.apply(EngineStep(4, 0.0, finished=(StepFinished("a", "stop"),), cached_free_blocks=2))
    assert ledger.references == {}
    assert ledger.complete
    assert ledger.cached_free == frozenset((1, 2))


def test_what_a_request_gets_in_the_step_that_ends_it_is_given_back_too() -> None:
    ledger = KvLedger(EMPTY)
    ledger.apply(EngineStep(1, 0.0, rows=(row("a", 1, joined=True, count=1),), used_blocks=1))
    last = EngineStep(
        2,
        0.0,
        rows=(row("a", 2, computed=4, count=2),),
        finished=(StepFinished("a", "length"),),
        cached_free_blocks=2,
    )
    ledger.apply(last)
    assert ledger.snapshot().cached_free == (1, 2)
    assert ledger.complete


def test_steps_that_the_base_has_change_nothing() -> None:
    base = BlockSnapshot(4, 9.0, SIZE, 64, 1, 0, 63, (BlockTable("a", (1,), 4),))
    ledger = KvLedger(base)
    ledger.apply(EngineStep(4, 0.0, rows=(row("a", 2),), used_blocks=2))
    assert ledger.snapshot() == base
