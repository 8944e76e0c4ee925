"""Many steps at once, where all of them are alike: the same requests decode, nobody waits, and there is room.

What follows is exactly what as many ``schedule`` and ``complete`` would have made, block numbers included.
"""

from __future__ import annotations

from typing import NamedTuple

from control_plane.contracts.step import StepFinished
from workers.engine.sim.scheduler import SimScheduler


class Ahead(NamedTuple):
    """So many alike steps can come; ``context`` tokens are in the cache of the ``requests`` before the first."""

    steps: int
    requests: int
    context: int


_NONE = Ahead(0, 0, 0)


class LeapingScheduler(SimScheduler):
    def ahead(self) -> Ahead:
        """The last of the steps ends a request, if there is room for all of them. None with async_scheduling."""
        running = self._running
        if (
            self._in_flight is not None
            or self._ended
            or len(self._waiting)
            or not 0 < len(running) <= self.config.max_num_batched_tokens
        ):
            return _NONE
        steps, context = 1 << 30, 0
        for state in running:
            known = len(state.tokens)
            if known - state.computed != 1 or known == state.prompt_tokens:
                return _NONE
            context += known - 1
            if state.limit - known < steps:
                steps = state.limit - known
        size, room = self.config.block_size, self._pool.available()
        while steps and steps * len(running) > room * size:
            # Each needs one more block than its share at most: this is on the safe side.
            steps //= 2
        if steps and sum(-(-(state.computed + steps) // size) - len(state.blocks) for state in running) > room:
            return _NONE
        return Ahead(steps, len(running), context)

    def leap(self, steps: int, token: int) -> tuple[StepFinished, ...]:
        """Make so many of the steps ``ahead``, every token the same. Returns who ended with the last one."""
        size, running = self.config.block_size, self._running
        wanted: list[tuple[int, int]] = []
        filled: list[tuple[int, int]] = []
        ended = False
        for index, state in enumerate(running):
            computed = state.computed
            if computed + steps > state.capacity:
                wanted += [(at, index) for at in range(state.capacity - computed, steps, size)]
            if computed + steps >= state.cache_at:
                filled += [(at, index) for at in range(state.cache_at - computed - 1, steps, size)]
            state.tokens += [token] * steps
            state.computed = computed + steps
            ended |= len(state.tokens) >= state.limit
        if wanted:
            wanted.sort()
            for (_, index), block in zip(wanted, self._pool.take(len(wanted)), strict=True):
                running[index].blocks.append(block)
                running[index].capacity += size
        if filled:
            filled.sort()
            for _, index in filled:
                self._cache(running[index], running[index].cached_blocks + 1)
        self.step += steps
        if not ended:
            return ()
        for state in running:
            if len(state.tokens) >= state.limit:
                self._end(state, "length")
        self._running = [state for state in running if state.limit >= 0]
        finished = tuple(self._ended)
        self._ended.clear()
        return finished
