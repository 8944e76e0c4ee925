"""A small scheduler that makes engine steps as a real one does, and keeps the truth about every block beside them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

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
from tests.snapshots.memory import NOW


@dataclass
class Job:
    """A request; ``prefix`` names a prompt that it begins with, ``prefix_blocks`` blocks long."""

    id: str
    prompt: int
    outputs: int
    priority: int = 0
    prefix: str = ""
    prefix_blocks: int = 0
    done: int = 0
    computed: int = 0
    cached: int = 0
    known: int = 0
    blocks: list[int] = field(default_factory=list)
    begun: bool = False
    preempted: bool = False

    @property
    def tokens(self) -> int:
        return self.prompt + self.done

    def content(self, index: int) -> tuple[str, int]:
        """What block ``index`` holds, as far as others could share it."""
        return (self.prefix if index < self.prefix_blocks else self.id, index)


class SmallEngine:
    """Chunked prefill, shared prefixes, preemption of the last to come, least recently freed blocks first."""

    def __init__(self, total: int = 182, block_size: int = 32, seats: int = 16, budget: int = 256) -> None:
        self.total, self.block_size, self.seats, self.budget = total, block_size, seats, budget
        self.step = 0
        self.at = NOW - 60.0
        self.waiting: deque[Job] = deque()
        self.running: list[Job] = []
        self._free = dict.fromkeys(range(1, total + 1))
        self._references: dict[int, int] = {}
        self._content: dict[int, tuple[str, int]] = {}

    def add(self, job: Job) -> None:
        self.waiting.append(job)

    @property
    def cached_free(self) -> set[int]:
        return {block for block in self._free if block in self._content}

    def snapshot(self) -> BlockSnapshot:
        used, cached = len(self._references), len(self.cached_free)
        return BlockSnapshot(
            self.step,
            self.at,
            self.block_size,
            self.total,
            used,
            cached,
            self.total - used - cached,
            tuple(BlockTable(job.id, tuple(job.blocks), job.computed) for job in self.running),
            tuple(SharedBlock(block, count) for block, count in sorted(self._references.items()) if count > 1),
            tuple(sorted(self.cached_free)),
        )

    def run(self, abort: str | None = None) -> EngineStep:
        """One step; ``abort`` is a request that was aborted while it ran."""
        self.step += 1
        budget, rows, preempted = self.budget, [], []
        scheduled: list[tuple[Job, int]] = []
        for job in list(self.running):
            if job not in self.running:
                continue
            tokens = min(job.tokens - job.computed, budget)
            while tokens and not self._grow(job, job.computed + tokens):
                victim = self.running.pop()
                scheduled = [pair for pair in scheduled if pair[0] is not victim]
                rows = [row for row in rows if row.request_id != victim.id]
                self._give_back(victim)
                victim.computed, victim.preempted = 0, True
                self.waiting.appendleft(victim)
                preempted.append(victim.id)
                if victim is job:
                    break
            if tokens and job in self.running:
                rows.append(self._row(job, tokens))
                scheduled.append((job, tokens))
                budget -= tokens
        while not preempted and self.waiting and len(self.running) < self.seats and budget:
            job = self.waiting[0]
            hit = self._hit(job)
            tokens = min(job.tokens - hit * self.block_size, budget)
            if not self._grow(job, hit * self.block_size + tokens):
                self._give_back(job)
                break
            self.waiting.popleft()
            self.running.append(job)
            job.computed = hit * self.block_size
            job.cached = job.cached if job.begun else job.computed
            rows.append(self._row(job, tokens))
            scheduled.append((job, tokens))
            job.begun, job.preempted = True, False
            budget -= tokens
        return self._complete(rows, scheduled, preempted, abort)

    def _complete(
        self, rows: list[StepRow], scheduled: list[tuple[Job, int]], preempted: list[str], abort: str | None
    ) -> EngineStep:
        waiting = tuple(StepWaiting(job.id, job.tokens, job.priority, job.preempted) for job in self.waiting)
        finished = []
        for job, tokens in scheduled:
            job.computed += tokens
            for index in range(job.computed // self.block_size):
                self._content[job.blocks[index]] = job.content(index)
            if job.computed == job.tokens:
                job.done += 1
            if job.done >= job.outputs or job.id == abort:
                reason = "abort" if job.id == abort else "length"
                finished.append(StepFinished(job.id, reason, job.done, len(job.blocks)))
                self.running.remove(job)
                self._give_back(job)
        tokens = sum(row.tokens for row in rows)
        used, cached = len(self._references), len(self.cached_free)
        step = EngineStep(
            self.step,
            self.at,
            0.0002 + 0.00001 * len(rows),
            0.018 + 0.0011 * tokens,
            tokens,
            tuple(rows),
            waiting,
            len(waiting),
            tuple(preempted),
            tuple(finished),
            self.total,
            used,
            cached,
            self.total - used - cached,
            batch=len(rows),
        )
        self.at += step.schedule_s + step.execute_s + 0.002
        return step

    def _row(self, job: Job, tokens: int) -> StepRow:
        end = job.computed + tokens
        kind = StepKind.DECODE if job.computed >= job.prompt and not job.preempted else StepKind.PREFILL
        if kind is StepKind.PREFILL and end >= job.tokens:
            kind = StepKind.LAST_PREFILL
        joined = not job.begun
        resumed = job.preempted and job.begun
        known = 0 if joined or resumed else job.known
        job.known = len(job.blocks)
        return StepRow(
            job.id,
            kind,
            tokens,
            job.computed,
            job.prompt,
            job.done,
            job.cached,
            job.priority,
            joined,
            resumed,
            tuple(job.blocks[known:]),
            len(job.blocks),
        )

    def _hit(self, job: Job) -> int:
        """Take the blocks of its prefix that still have their content; how many those are. One token is always left."""
        where = {content: block for block, content in self._content.items()}
        most = min(job.prefix_blocks, (job.tokens - 1) // self.block_size)
        hits = []
        for index in range(most):
            block = where.get(job.content(index))
            if block is None:
                break
            hits.append(block)
        job.blocks = []
        for block in hits:
            self._free.pop(block, None)
            self._references[block] = self._references.get(block, 0) + 1
            job.blocks.append(block)
        return len(hits)

    def _grow(self, job: Job, tokens: int) -> bool:
        needed = -(-tokens // self.block_size) - len(job.blocks)
        if needed > len(self._free):
            return False
        for _ in range(needed):
            block = next(iter(self._free))
            del self._free[block]
            self._content.pop(block, None)
            self._references[block] = 1
            job.blocks.append(block)
        return True

    def _give_back(self, job: Job) -> None:
        for block in reversed(job.blocks):
            self._references[block] -= 1
            if not self._references[block]:
                del self._references[block]
                self._free[block] = None
        job.blocks, job.known = [], 0


def busy(steps: int = 140) -> tuple[SmallEngine, BlockSnapshot, list[EngineStep]]:
    """A shared assistant prompt, long and short calls, a cache that gets full: joins, preemptions, ends, an abort."""
    engine = SmallEngine(total=96, seats=10)
    base = engine.snapshot()
    made = []
    for number in range(steps):
        if number % 9 == 0:
            at = number // 9
            engine.add(
                Job(
                    f"req-{0x5F20 + 7 * at:x}",
                    prompt=110 + 97 * at % 420,
                    outputs=40 + 31 * at % 90,
                    priority=(0, 10, -10)[at % 3],
                    prefix="assistant" if at % 2 else "",
                    prefix_blocks=3 if at % 2 else 0,
                )
            )
        abort = engine.running[0].id if number == steps - 12 and engine.running else None
        made.append(engine.run(abort))
    return engine, base, made
