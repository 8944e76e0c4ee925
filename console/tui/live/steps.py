"""The last steps of one engine, from whatever source, and the state of its KV cache after any of them.

Frames come in; a ``Tape`` goes out: one moment of the ring that stands still while more is collected. Going back
replays from the nearest state that was kept, never from the beginning.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from console.kv_ledger import KvLedger
from console.tui.live.badges import Badges
from control_plane.contracts.step import BlockSnapshot, BlockTable, EngineStep, StepFrame, TraceState

MOST_STEPS = 4096
MOST_ROWS = 131_072
"""Rows of all steps together: some 30 MiB."""
STATE_EVERY = 128


@dataclass(frozen=True, slots=True)
class Moment:
    """One step, and the KV cache after it. ``cached_free`` is None where it is only known how many they are;
    ``complete`` is false where steps were lost and the tables miss blocks."""

    step: EngineStep
    block_size: int
    tables: tuple[BlockTable, ...] = ()
    references: Mapping[int, int] = field(default_factory=dict)
    cached_free: frozenset[int] | None = None
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Tape:
    """Steps in their order, states of the KV cache in theirs, and the number of each request's badge."""

    steps: Sequence[EngineStep] = ()
    states: Sequence[BlockSnapshot] = ()
    badges: Mapping[str, int] = field(default_factory=dict)
    trace: TraceState = field(default_factory=TraceState)

    @property
    def first(self) -> int:
        return self.steps[0].step if self.steps else 0

    @property
    def last(self) -> int:
        return self.steps[-1].step if self.steps else 0

    def index(self, step: int) -> int:
        """Where the step stands, or the last one before it; 0 for those before the first."""
        return max(0, bisect_right(self.steps, step, key=_number) - 1)

    def at(self, step: int) -> Moment | None:
        """The moment after this step, or after the last one before it; None while there are no steps."""
        if not self.steps:
            return None
        end = self.index(step)
        number = self.steps[end].step
        kept = bisect_right(self.states, number, key=_number) - 1
        ledger = KvLedger(self.states[kept] if kept >= 0 else BlockSnapshot(0))
        begin = bisect_right(self.steps, ledger.step, key=_number)
        ledger.apply_all(self.steps[index] for index in range(begin, end + 1))
        return Moment(
            self.steps[end],
            ledger.block_size,
            ledger.tables(),
            ledger.references,
            ledger.cached_free,
            ledger.complete,
        )


class StepLog:
    """A ring of ``most`` steps, and up to twice ``every`` more: the oldest go together, from one kept state to the
    next, so that the whole state can be told after each step that is left. They also go while the steps have more than
    ``most_rows`` rows, down to the last ``every`` steps."""

    def __init__(self, most: int = MOST_STEPS, every: int = STATE_EVERY, most_rows: int = MOST_ROWS) -> None:
        self._most, self._every, self._most_rows = most, every, most_rows
        self.trace = TraceState()
        self._begin(BlockSnapshot(0))

    def _begin(self, base: BlockSnapshot) -> None:
        self._steps: deque[EngineStep] = deque()
        self._rows = 0
        self._states = [base]
        self._ledger = KvLedger(base)
        self._badges = Badges()
        self._tape: Tape | None = None
        for table in base.tables:
            self._badges.see(table.request_id, base.step)

    @property
    def doubtful(self) -> bool:
        """Whether a snapshot would tell more than what follows from the steps."""
        return bool(self._steps) and (not self._ledger.complete or self._ledger.cached_free is None)

    def take(self, frame: StepFrame) -> None:
        """What a source sent. A base begins anew: the steps after it are all that the source has kept."""
        if frame.base is not None:
            self._begin(frame.base)
        self.trace = frame.trace
        self._tape = None
        for step in frame.steps:
            self._add(step)

    def correct(self, snapshot: BlockSnapshot) -> None:
        """The engine's own word for its KV cache after a step, at or after the last state that is kept."""
        if snapshot.step < self._states[-1].step:
            return
        if self._states[-1].step == snapshot.step:
            self._states.pop()
        self._states.append(snapshot)
        self._ledger = KvLedger(snapshot)
        self._ledger.apply_all(step for step in self._steps if step.step > snapshot.step)
        self._tape = None

    def tape(self) -> Tape:
        if self._tape is None:
            self._tape = Tape(tuple(self._steps), tuple(self._states), dict(self._badges.given), self.trace)
        return self._tape

    def _add(self, step: EngineStep) -> None:
        if self._steps and step.step <= self._steps[-1].step:
            return
        self._steps.append(step)
        self._rows += len(step.rows)
        self._ledger.apply(step)
        for row in step.rows:
            self._badges.see(row.request_id, step.step)
        for waiting in step.waiting:
            self._badges.see(waiting.request_id, step.step)
        for finished in step.finished:
            self._badges.end(finished.request_id)
        if step.step >= self._states[-1].step + self._every and self._ledger.step == step.step:
            self._keep()

    def _keep(self) -> None:
        """Remember the state, and forget what is too old, up to a state that is kept."""
        self._states.append(self._ledger.snapshot())
        while len(self._states) > 2:
            old = bisect_right(self._steps, self._states[1].step, key=_number)
            if len(self._steps) - old < self._most and self._rows <= self._most_rows:
                break
            del self._states[0]
            for _ in range(old):
                self._rows -= len(self._steps.popleft().rows)
        self._badges.forget_before(self._steps[0].step)


def _number(item: EngineStep | BlockSnapshot) -> int:
    return item.step
