"""Who runs, who waits, and when each is due: seats, blocks, preemption and time, without a clock of its own."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from workers.engine.scripted.blocks import BlockPool
from workers.engine.scripted.choice import Choice
from workers.engine.scripted.settings import ScriptedSettings

# Timers fire on whole milliseconds, half a one early at worst: what is due by then belongs to the same step.
SAME_STEP_S = 0.0006


@dataclass(slots=True)
class Totals:
    """Counts since the engine started."""

    generated: int = 0
    prompt: int = 0
    cached: int = 0
    preemptions: int = 0
    steps: int = 0


class Schedule:
    """Times are seconds on one monotonic clock, and passed in.

    A choice waits until there is a seat and room for all of its tokens; the next to get one is the first by priority,
    then by arrival. When blocks run out, the last by that order goes back to waiting and computes its tokens again.
    """

    def __init__(self, settings: ScriptedSettings, pool: BlockPool) -> None:
        self.running: set[Choice] = set()
        self.waiting = 0
        self.totals = Totals()
        self._settings = settings
        self._pool = pool
        self._queue: list[tuple[tuple[int, int], Choice]] = []
        self._turns: list[tuple[float, int, Choice]] = []
        self._tickets = 0

    def add(self, choice: Choice) -> None:
        heapq.heappush(self._queue, (choice.order, choice))
        self.waiting += 1

    def end(self, choice: Choice) -> None:
        """The choice is over, wherever it is."""
        choice.ended = True
        if choice.running:
            self._leave(choice)
        else:
            self.waiting -= 1

    def admit(self, now: float) -> None:
        """Take from the waiting as many as there are seats and blocks for."""
        while self._queue and len(self.running) < self._settings.max_num_seqs:
            choice = self._queue[0][1]
            if choice.ended:
                heapq.heappop(self._queue)
                continue
            taken = self._pool.take(choice.keys, len(choice.tokens))
            if taken is None:
                return
            heapq.heappop(self._queue)
            self.waiting -= 1
            choice.blocks, hits = taken
            self._begin(choice, hits * self._pool.block_size, now)

    def due(self, now: float) -> list[Choice]:
        """Those whose next token is due by now, in the order of their turns. Each needs ``again`` or ``end`` after."""
        found: list[Choice] = []
        turns = self._turns
        while turns and turns[0][0] <= now + SAME_STEP_S:
            _, ticket, choice = heapq.heappop(turns)
            if choice.ticket == ticket and choice.running:
                found.append(choice)
        return found

    def next_due(self) -> float | None:
        return self._turns[0][0] if self._turns else None

    def again(self, choice: Choice, now: float) -> None:
        """A token came and more will: room for it, and the next turn."""
        if len(choice.tokens) >= choice.grow_at and not self._grow(choice):
            return
        own = choice.call.script.delay_s
        step = self._settings.delay_s if own is None else 0.0
        if own is not None:
            due = max(choice.due + own, now)
        elif step:
            due = (now + SAME_STEP_S) // step * step + step
        else:
            due = now
        self._turn(choice, due)

    def _begin(self, choice: Choice, cached: int, now: float) -> None:
        call, settings = choice.call, self._settings
        choice.running = True
        choice.grow_at = self._next_growth(choice)
        self.running.add(choice)
        if not choice.begun:
            choice.begun = True
            self.totals.prompt += len(choice.tokens)
            self.totals.cached += cached
            if not choice.index:
                call.cached_tokens = cached
                call.scheduled_mono = now
        prefill = call.script.prefill_s
        if prefill is None:
            prefill = settings.prefill_s + settings.prefill_s_per_token * (len(choice.tokens) - cached)
        self._turn(choice, now + prefill)

    def _turn(self, choice: Choice, due: float) -> None:
        script = choice.call.script
        if script.stall_s and choice.count >= script.stall_after and not choice.stalled:
            choice.stalled = True
            due += script.stall_s
        self._tickets += 1
        choice.due, choice.ticket = due, self._tickets
        heapq.heappush(self._turns, (due, choice.ticket, choice))

    def _grow(self, choice: Choice) -> bool:
        """Room for the tokens so far; takes blocks from the least important when there are none. False: from itself."""
        pool, size = self._pool, self._pool.block_size
        while len(choice.keys) < len(choice.tokens) // size:
            parent = choice.keys[-1] if choice.keys else hash(choice.call.generate.cache_salt)
            start = len(choice.keys) * size
            key = hash((parent, tuple(choice.tokens[start : start + size])))
            choice.keys.append(key)
            if len(choice.keys) <= len(choice.blocks):
                pool.fill(choice.blocks[len(choice.keys) - 1], key)
        while len(choice.blocks) * size < len(choice.tokens):
            block = pool.grow()
            if block is not None:
                choice.blocks.append(block)
                continue
            victim = max(self.running, key=lambda other: other.order)
            self._preempt(victim)
            if victim is choice:
                return False
        choice.grow_at = self._next_growth(choice)
        return True

    def _next_growth(self, choice: Choice) -> int:
        size = self._pool.block_size
        return min((len(choice.keys) + 1) * size, len(choice.blocks) * size + 1)

    def _preempt(self, choice: Choice) -> None:
        self._leave(choice)
        choice.call.preemptions += 1
        self.totals.preemptions += 1
        self.add(choice)

    def _leave(self, choice: Choice) -> None:
        choice.running = False
        choice.ticket = 0
        self.running.discard(choice)
        self._pool.release(choice.blocks)
        choice.blocks = []
