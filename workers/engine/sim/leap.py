"""Many steps at once, where all of them are alike: the same requests decode, nobody waits, and there is room.

What follows is exactly what as many ``schedule`` and ``complete`` would have made, block numbers included.
"""

from __future__ import annotations

from typing import Final

from control_plane.contracts.step import StepFinished
from workers.engine.sim.native import i64
from workers.engine.sim.scheduler import SimScheduler

Ahead = tuple[i64, i64, i64]
"""So many alike steps can come; so many requests are in each; so many tokens of theirs are in the cache before the
first."""

_MANY: Final = 1 << 30


class LeapingScheduler(SimScheduler):
    def ahead(self) -> Ahead:
        """The last of the steps ends a request, if there is room for all of them. None with async_scheduling."""
        running = self._running
        requests: i64 = len(running)
        if (
            self._in_flight is not None
            or self._ended
            or len(self._waiting)
            or requests == 0
            or requests > self.config.max_num_batched_tokens
        ):
            return 0, 0, 0
        steps: i64 = _MANY
        context: i64 = 0
        for state in running:
            known: i64 = len(state.tokens)
            if known - state.computed != 1 or known == state.prompt_tokens:
                return 0, 0, 0
            context += known - 1
            left = state.limit - known
            if left < steps:
                steps = left
        size: i64 = self.config.block_size
        room: i64 = self._pool.available()
        while steps and steps * requests > room * size:
            # Each needs one more block than its share at most: this is on the safe side.
            steps //= 2
        missing: i64 = 0
        for state in running:
            missing += -(-(state.computed + steps) // size) - len(state.blocks)
        if steps and missing > room:
            return 0, 0, 0
        return steps, requests, context

    def leap(self, steps: i64, token: int) -> tuple[StepFinished, ...]:
        """Make so many of the steps ``ahead``, every token the same. Returns who ended with the last one."""
        running = self._running
        size: i64 = self.config.block_size
        requests: i64 = len(running)
        # When a block is wanted or filled, and by whom, as one number that puts them in their order.
        wanted: list[int] = []
        filled: list[int] = []
        added = [token] * steps
        ended = False
        for index in range(requests):
            state = running[index]
            computed = state.computed
            end = computed + steps
            at = state.capacity - computed
            while at < steps:
                wanted.append(at * requests + index)
                at += size
            at = state.cache_at - computed - 1
            while at < steps:
                filled.append(at * requests + index)
                at += size
            state.tokens += added
            state.computed = end
            if len(state.tokens) >= state.limit:
                ended = True
        if wanted:
            wanted.sort()
            blocks = self._pool.take(len(wanted))
            for place in range(len(wanted)):
                state = running[wanted[place] % requests]
                state.blocks.append(blocks[place])
                state.capacity += size
        if filled:
            filled.sort()
            for moment in filled:
                state = running[moment % requests]
                self._cache(state, state.cached_blocks + 1)
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
