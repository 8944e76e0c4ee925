"""vLLM's scheduler, step by step, without vLLM: the same batches and the same block numbers for the same requests.

A discrete model of ``vllm/v1/core/sched/scheduler.py`` and what it allocates from, version 0.32, for one group of
full-attention layers. ``tests/parity`` runs both side by side. In each step the running requests come first, in the
order in which they were admitted, each with what it lacks to catch up with its tokens: one token in decode, a chunk in
prefill. Who cannot get a block pushes out the least important of the running, which computes everything again later.
What is left of the token budget goes to the waiting, in their order, until one does not fit.

Not modelled: speculative decoding, LoRA, multi-modal inputs, structured output, KV connectors (P/D, offloading),
sliding window and Mamba layers, data-parallel throttling, streaming input.

With ``async_scheduling`` a step is decided while the one before it runs (``async_scheduler.py``, ``EngineCore.
step_with_batch_queue``): it counts on tokens that are still to come, and what a request held that ends by one is free a
step later.

Pure: time is passed in, tokens too. Calls alternate, ``schedule`` and ``complete``, in the order of the steps; with
``async_scheduling`` one more ``schedule`` may go ahead. ``add`` and ``abort`` may come between any two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from control_plane.contracts.block_hash import extend_hashes
from control_plane.contracts.errors import Conflict, DropReason, InvalidRequest
from control_plane.contracts.step import BlockSnapshot, BlockTable, SharedBlock, StepFinished, StepKind, StepWaiting
from workers.engine.kv_journal import KvJournal
from workers.engine.sim.block_pool import BlockCounts, BlockPool
from workers.engine.sim.config import SchedulerConfig
from workers.engine.sim.in_flight import InFlight
from workers.engine.sim.native import i64, mypyc_attr
from workers.engine.sim.request import SimRequest
from workers.engine.sim.request_state import ExtendKeys, RequestState
from workers.engine.sim.scheduled import Row, Scheduled, head_of
from workers.engine.sim.waiting import waiting_queue

WAITING_SHOWN: Final = 64
"""As many of the queue a step tells."""

PREFILL: Final = StepKind.PREFILL
LAST_PREFILL: Final = StepKind.LAST_PREFILL
DECODE: Final = StepKind.DECODE


@mypyc_attr(allow_interpreted_subclasses=True)
class SimScheduler:
    """``journal`` hears what the prefix cache holds, by the names of ``contracts/block_hash.py``."""

    def __init__(self, config: SchedulerConfig, journal: KvJournal | None = None) -> None:
        self.config = config
        self.step: i64 = 0
        self._pool = BlockPool(config.total_blocks, journal)
        self._extend_keys: ExtendKeys | None = None if journal is None else extend_hashes
        self._states: dict[str, RequestState] = {}
        self._waiting = waiting_queue(config.policy)
        self._running: list[RequestState] = []
        self._ended: list[StepFinished] = []
        self._in_flight = InFlight(self._ended) if config.async_scheduling else None

    def add(self, request: SimRequest) -> None:
        """Raises InvalidRequest for what vLLM refuses, Conflict for an id that is still in use."""
        prompt = len(request.prompt_token_ids)
        if not prompt:
            raise InvalidRequest("the prompt is empty", param="prompt_token_ids")
        if prompt >= self.config.max_model_len:
            raise InvalidRequest(
                f"the prompt has {prompt} tokens; with its output it may have {self.config.max_model_len}",
                param="prompt_token_ids",
                reason=DropReason.CONTEXT_LENGTH_EXCEEDED,
            )
        if request.max_tokens < 1:
            raise InvalidRequest(f"max_tokens must be at least 1, not {request.max_tokens}", param="max_tokens")
        if request.request_id in self._states:
            raise Conflict("a request with this id has not ended yet", param="request_id")
        state = RequestState(request, self.config.max_model_len, self._extend_keys)
        self._states[request.request_id] = state
        self._waiting.add(state)

    def abort(self, request_id: str) -> bool:
        """End it now; its blocks are free at once, and a token that is being computed for it is lost. False: unknown.
        The next ``complete`` tells that it has ended."""
        state = self._states.get(request_id)
        if state is None:
            return False
        if state.waiting:
            self._waiting.remove(state)
        else:
            self._running.remove(state)
        self._end(state, "abort")
        return True

    def has_work(self) -> bool:
        """Whether ``schedule`` has something to do, or to tell."""
        return bool(self._running or self._ended or len(self._waiting))

    def schedule(self, now: float) -> Scheduled:
        if self._in_flight is not None:
            self._in_flight.close(self._pool.counts())
        elif not self.has_work():
            return Scheduled(self.step, now)
        batch: dict[RequestState, Row] = {}
        preempted: list[str] = []
        threshold = self._long_prefill_threshold()
        budget = self._schedule_running(batch, preempted, threshold)
        if not preempted and budget and len(self._waiting):
            budget = self._schedule_waiting(batch, budget, threshold)
        told = bool(batch or preempted or self._ended)
        self.step += int(told)
        waiting = self._waiting
        scheduled = Scheduled(
            step=self.step,
            now=now,
            tokens=self.config.max_num_batched_tokens - budget,
            batch=list(batch.values()),
            states=[state for state in batch if state.computed >= len(state.tokens) + state.coming],
            preempted=sorted(preempted) if preempted else (),
            heads=[head_of(state) for state in waiting.head(WAITING_SHOWN)] if len(waiting) else (),
            waiting_total=len(waiting),
        )
        if self._in_flight is not None:
            self._in_flight.add(scheduled, told)
            for state in scheduled.states:
                state.coming += 1
        return scheduled

    def complete(
        self, scheduled: Scheduled, tokens: dict[str, Sequence[int]], ended: dict[str, str] | None = None
    ) -> tuple[StepFinished, ...]:
        """The model has run: ``tokens`` has one for each of ``scheduled.due``.

        ``ended`` names those for whom it was the last, with the reason ("stop", "error"); who has max_tokens, or fills
        max_model_len, ends by itself ("length"). Tokens of others, as of one aborted meanwhile, are ignored. Returns
        everyone whose end belongs to this step: who has ended since the last call, but with ``async_scheduling`` who
        ended after the next one was scheduled belongs to that.
        """
        gone, ahead = False, self._in_flight is not None
        for state in scheduled.states:
            if state.limit < 0:
                continue
            if state.stale:
                state.stale -= 1
            elif ahead:
                state.coming -= 1
            new = tokens.get(state.request_id)
            if not new:
                continue
            room = state.limit - len(state.tokens)
            state.tokens += new[:room]
            reason = ended.get(state.request_id) if ended else None
            if reason is None and len(new) >= room:
                reason = "length"
            if ahead and not state.waiting:
                self._cache_known(state, state.computed - state.coming)
            if reason is not None:
                if state.waiting:
                    self._waiting.remove(state)
                self._end(state, reason)
                gone = True
        if gone:
            self._running = [state for state in self._running if state.limit >= 0]
        if self._in_flight is not None:
            return self._in_flight.land(scheduled, self._pool.counts())
        finished = tuple(self._ended)
        self._ended.clear()
        return finished

    def discard(self, scheduled: Scheduled) -> None:
        """Instead of ``complete``, of what was scheduled last: it runs nothing and tells nothing."""
        if self._in_flight is not None:
            self._in_flight.drop(scheduled)

    def waiting(self, most: int | None = None) -> tuple[StepWaiting, ...]:
        """The queue in its order, or its head."""
        count = len(self._waiting) if most is None else most
        return tuple(StepWaiting(*head_of(state)) for state in self._waiting.head(count))

    def running(self) -> tuple[str, ...]:
        """Ids, in the order in which they are scheduled."""
        return tuple(state.request_id for state in self._running)

    def sizes(self) -> tuple[int, int]:
        """How many run, how many wait."""
        return len(self._running), len(self._waiting)

    def counts(self) -> BlockCounts:
        return self._pool.counts()

    def told_counts(self) -> BlockCounts:
        """After the step that was completed last."""
        return self._pool.counts() if self._in_flight is None else self._in_flight.landed_counts

    def reset_prefix_cache(self) -> bool:
        """Forget what free blocks hold. False, and nothing is done, while a request has blocks."""
        return self._pool.forget_all()

    def cached_keys(self) -> frozenset[int]:
        """The names of all blocks that can be hit."""
        return self._pool.keys()

    def tables(self) -> tuple[BlockTable, ...]:
        """Of the running, in their order."""
        return tuple(BlockTable(state.request_id, tuple(state.blocks), state.computed) for state in self._running)

    def snapshot(self, taken_unix: float = 0.0) -> BlockSnapshot:
        """The whole KV cache after the last step; ``cached_free`` in the order in which the blocks go."""
        if self._in_flight is not None:
            self._in_flight.look(self._pool.counts())
        used, cached_free, free = self._pool.counts()
        return BlockSnapshot(
            step=self.step,
            taken_unix=taken_unix,
            block_size=self.config.block_size,
            total_blocks=self._pool.total,
            used_blocks=used,
            cached_free_blocks=cached_free,
            free_blocks=free,
            tables=self.tables(),
            shared=tuple(SharedBlock(block, references) for block, references in self._pool.shared()),
            cached_free=self._pool.idle(),
            waiting=self.waiting(WAITING_SHOWN),
        )

    def _long_prefill_threshold(self) -> i64:
        """The most tokens of one request, 0 for no bound. A request alone starves nobody."""
        config, requests = self.config, len(self._running) + len(self._waiting)
        threshold: i64 = config.long_prefill_token_threshold
        if not threshold or requests < 2:
            return 0
        if config.long_prefill_token_threshold_adaptive:
            return max(threshold, config.max_num_batched_tokens // requests)
        return threshold

    def _schedule_running(self, batch: dict[RequestState, Row], preempted: list[str], threshold: i64) -> i64:
        """Returns what is left of the token budget."""
        pool, running = self._pool, self._running
        block_size: i64 = self.config.block_size
        budget: i64 = self.config.max_num_batched_tokens
        index = 0
        while index < len(running) and budget:
            state = running[index]
            computed, coming = state.computed, state.coming
            known: i64 = len(state.tokens)
            if coming and computed + 1 >= state.limit:
                # What is in flight is its last token.
                index += 1
                continue
            tokens = known + coming - computed
            if tokens > 1:
                if 0 < threshold < tokens:
                    tokens = threshold
                if tokens > budget:
                    tokens = budget
            elif not tokens:
                index += 1
                continue
            end = computed + tokens
            new: tuple[int, ...] = ()
            if end > state.capacity:
                missing = -(-end // block_size) - len(state.blocks)
                while missing > pool.available():
                    at = self._victim()
                    victim = running.pop(at)
                    if at < index:
                        index -= 1
                    if (row := batch.pop(victim, None)) is not None:
                        budget += row[2]
                    self._preempt(victim)
                    preempted.append(victim.request_id)
                    if victim is state:
                        return budget
                new = tuple(pool.take(missing))
                state.blocks += new
                state.capacity += missing * block_size
            if end >= state.cache_at:
                self._cache_known(state, min(end, known))
            if end < known + coming:
                kind = PREFILL
            elif state.prefilling:
                kind, state.prefilling = LAST_PREFILL, False
            else:
                kind = DECODE
            batch[state] = (
                state.request_id,
                kind,
                tokens,
                computed,
                state.prompt_tokens,
                known + coming - state.prompt_tokens,
                state.cached_tokens,
                state.priority,
                False,
                False,
                new,
                len(state.blocks),
            )
            state.computed = end
            budget -= tokens
            index += 1
        return budget

    def _schedule_waiting(self, batch: dict[RequestState, Row], budget: i64, threshold: i64) -> i64:
        """Returns what is left of the token budget."""
        config, pool, waiting, running = self.config, self._pool, self._waiting, self._running
        block_size: i64 = config.block_size
        while budget and len(waiting) and len(running) < config.max_num_seqs:
            state = waiting.first()
            total: i64 = len(state.tokens)
            hits: list[int] = []
            if config.enable_prefix_caching:
                # The last token is always computed: without it there is nothing to sample from.
                hits = pool.find(state.block_keys(block_size), (total - 1) // block_size)
            computed = len(hits) * block_size
            tokens = total - computed
            if 0 < threshold < tokens:
                tokens = threshold
            if tokens > budget:
                if not config.enable_chunked_prefill:
                    break
                tokens = budget
            end = computed + tokens
            missing = -(-end // block_size) - len(hits)
            room: i64 = pool.available() - pool.idle_among(hits)
            if running:
                room -= config.watermark_blocks
            if missing > room:
                break
            if config.scheduler_reserve_full_isl and -(-total // block_size) - len(hits) > room:
                break
            waiting.pop()
            pool.touch(hits)
            state.blocks = hits + pool.take(missing)
            state.capacity = len(state.blocks) * block_size
            if config.enable_prefix_caching:
                state.cached_blocks = len(hits)
                state.cache_at = (len(hits) + 1) * block_size
                if end >= state.cache_at:
                    self._cache(state, end // block_size)
            resumed = state.preempted
            if not resumed:
                state.cached_tokens = computed
            state.waiting = state.preempted = False
            state.prefilling = end < total
            running.append(state)
            batch[state] = (
                state.request_id,
                LAST_PREFILL if end == total else PREFILL,
                tokens,
                computed,
                state.prompt_tokens,
                total - state.prompt_tokens,
                state.cached_tokens,
                state.priority,
                not resumed,
                resumed,
                tuple(state.blocks),
                len(state.blocks),
            )
            state.computed = end
            budget -= tokens
        return budget

    def _victim(self) -> int:
        """Where in the running list the least important is: the last by priority and arrival, or the last admitted."""
        running = self._running
        if self.config.policy == "priority":
            return max(range(len(running)), key=lambda index: running[index].order[:2])
        return len(running) - 1

    def _preempt(self, state: RequestState) -> None:
        self._free(state)
        state.stale += state.coming
        state.coming = 0
        state.waiting = state.preempted = True
        self._waiting.put_back(state)

    def _cache(self, state: RequestState, full: i64) -> None:
        """Its blocks up to ``full`` can be hit from now on, also by those who are admitted in this same step."""
        block_size = self.config.block_size
        keys = state.block_keys(block_size)
        for index in range(state.cached_blocks, full):
            self._pool.fill(state.blocks[index], keys[index])
        state.cached_blocks = full
        state.cache_at = (full + 1) * block_size

    def _cache_known(self, state: RequestState, computed: i64) -> None:
        """The blocks that ``computed`` tokens fill, all of which are known."""
        if computed >= state.cache_at:
            self._cache(state, computed // self.config.block_size)

    def _end(self, state: RequestState, reason: str) -> None:
        self._ended.append(StepFinished(state.request_id, reason, state.output_tokens, len(state.blocks)))
        self._free(state)
        state.limit = -1
        del self._states[state.request_id]

    def _free(self, state: RequestState) -> None:
        self._pool.release(state.blocks)
        state.blocks = []
        state.computed = state.capacity = state.cached_blocks = 0
