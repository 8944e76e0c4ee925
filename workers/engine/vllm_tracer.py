"""Notes of vLLM's steps, in flat tuples, made by the scheduler's hooks in ``vllm_trace``.

A step is closed when the next one is scheduled, or when its own output comes, whichever is first: what ended by then
belongs to it, and its block counts are of that moment. So the tables that follow from the steps are the scheduler's
own even where the next step is scheduled while one runs. A schedule that runs nothing and tells nothing is no step.

What was not told of a step, because it was not traced or because the trace failed, is told with the next one.
"""

from __future__ import annotations

import functools
import logging
import time
from collections import deque
from collections.abc import Callable, Container
from typing import Any, TypeVar

from workers.engine.choice_id import public_id
from workers.engine.step_payload import (
    DECODE,
    LAST_PREFILL,
    PREFILL,
    Finished,
    Row,
    Waiting,
    encode,
    encode_snapshot,
    encode_step,
)
from workers.engine.vllm_block_count import count_cached_free
from workers.engine.vllm_queue import waiting_head

PAYLOAD = "inferdeck_steps"
"""The key in ``SchedulerStats.ec_connector_stats`` under which a list of payloads travels."""

OFF, SAMPLED, FULL = 1, 2, 3
"""``TraceMode`` by number."""

_WAITING_TOLD = 64
_FAILURES = 32  # in a row, after which there is no trace any more
_UNSENT = 1024

_log = logging.getLogger(__name__)
_REASONS = {
    "FINISHED_STOPPED": "stop",
    "FINISHED_REPETITION": "stop",
    "FINISHED_LENGTH_CAPPED": "length",
    "FINISHED_IGNORED": "length",
    "FINISHED_ABORTED": "abort",
}


class _Seen:
    """A request that has been scheduled. ``blocks`` are told; ``joined`` and ``resumed`` are yet to be told."""

    __slots__ = ("blocks", "cached", "joined", "name", "resumed")

    def __init__(self, name: str, cached: int) -> None:
        self.name = name
        self.cached = cached
        self.blocks = 0
        self.joined = True
        self.resumed = False


class _Step:
    """A schedule whose output has not come yet. ``number`` 0: it runs nothing and tells nothing. ``seen``: a snapshot
    of after it was taken, so that what comes later belongs to another."""

    __slots__ = (
        "cached_free",
        "finished",
        "number",
        "output",
        "planning_s",
        "preempted",
        "rows",
        "schedule_s",
        "scheduled_at",
        "seen",
        "started_unix",
        "traced",
        "used",
        "waiting",
        "waiting_total",
    )

    def __init__(self, output: Any) -> None:
        self.output = output
        self.number = 0
        self.traced = self.seen = False
        self.rows: list[Row] = []
        self.waiting: list[Waiting] | None = None
        self.waiting_total = 0
        self.preempted: list[str] = []
        self.finished: list[Finished] = []
        self.used = self.cached_free = 0
        self.started_unix = self.schedule_s = self.scheduled_at = self.planning_s = 0.0


H = TypeVar("H", bound=Callable[..., None])


def _harmless(hook: H) -> H:
    @functools.wraps(hook)
    def run(self: Tracer, *args: Any) -> None:
        try:
            hook(self, *args)
        except Exception as error:
            self.failed(error)

    return run  # type: ignore[return-value]


class Tracer:
    """Follows one scheduler. ``problem`` says why it does not, or not any more."""

    def __init__(self, scheduler: Any, problem: str = "") -> None:
        self.mode = FULL
        self.every = 1
        self.step = 0
        self.dropped = 0
        self.problem = problem
        self._scheduler = scheduler
        self._seen: dict[str, _Seen] = {}
        self._names: set[str] = set()
        self._flying: deque[_Step] = deque()
        self._open: _Step | None = None
        self._preempted: list[str] = []
        self._finished: list[Finished] = []
        self._ended = False
        self._queue: tuple[int, bool] | None = None  # its length and whether it may change unseen; None: tell it
        self._unsent: list[bytes] = []
        self._failures = 0
        if not problem:
            try:
                self._pool = scheduler.kv_cache_manager.block_pool
                self._tables = scheduler.kv_cache_manager.coordinator.single_type_managers[0].req_to_blocks
                self._free = count_cached_free(self._pool)
            except Exception as error:
                self.problem = f"vLLM's scheduler is not as it is known here: {type(error).__name__}: {error}"
        if self.problem:
            _log.warning("no step trace", extra={"cause": self.problem})

    @property
    def state(self) -> list[Any]:
        return [self.mode if not self.problem else OFF, self.every, self.step, self.dropped, self.problem]

    def switch(self, mode: int, every: int) -> list[Any]:
        """From the next step on; mode 0 changes nothing."""
        if mode and not self.problem:
            self.mode, self.every = mode, max(every, 1)
        return self.state

    @_harmless
    def begin(self) -> None:
        """The next step is about to be scheduled."""
        if self._open is not None:
            self._close(self._open)

    @_harmless
    def plan(self, output: Any) -> None:
        """The batch stands, and the requests are as they were before it."""
        begun = time.perf_counter()
        step = _Step(output)
        self._flying.append(step)
        # In their order: of two with one name, the first has it.
        starting = dict.fromkeys(new.req_id for new in output.scheduled_new_reqs)
        starting |= dict.fromkeys(output.scheduled_cached_reqs.resumed_req_ids)
        preempted = output.preempted_req_ids
        if preempted:
            self._note_preempted(preempted)
        for request_id in starting:
            seen = self._seen.get(request_id)
            if seen is None:
                cached = self._scheduler.requests[request_id].num_computed_tokens
                self._seen[request_id] = _Seen(self._new_name(request_id), cached)
            else:
                seen.resumed = True
        if starting or preempted:
            self._queue = None
        if not (output.total_num_scheduled_tokens or preempted or self._ended):
            self._open = next((earlier for earlier in reversed(self._flying) if earlier.number), None)
            if self._open is not None and self._open.seen:
                self._open = None
            return
        self._ended = False
        self.step += 1
        step.number = self.step
        self._open = step
        if self.mode == FULL or (self.mode == SAMPLED and self.step % self.every == 0):
            step.rows = self._rows(output.num_scheduled_tokens, starting)
            step.waiting_total, step.waiting = self._waiting()
            step.preempted, self._preempted = self._preempted, []
            step.traced = True
        step.planning_s = time.perf_counter() - begun

    @_harmless
    def scheduled(self, output: Any, started_unix: float, schedule_s: float) -> None:
        step = self._flying[-1] if self._flying else None
        if step is not None and step.output is output:
            step.started_unix = started_unix
            step.schedule_s = schedule_s - step.planning_s
            step.scheduled_at = time.perf_counter()

    @_harmless
    def finishing(self, request: Any) -> None:
        """The request has ended, and its blocks are about to be given back."""
        request_id = request.request_id
        seen = self._seen.pop(request_id, None)
        self._ended, self._queue = True, None
        told = seen is not None and not seen.joined
        name = seen.name if seen is not None else public_id(request_id)
        if seen is not None:
            self._names.discard(name)
        if self.mode == OFF and not told:
            return
        reason = _REASONS.get(request.status.name, "error")
        blocks = len(self._tables.get(request_id, ()))
        self._finished.append((name, reason, request.num_output_tokens, blocks))

    @_harmless
    def updated(self, output: Any, at: float, outputs: dict[int, Any]) -> None:
        """The step's output came at ``at``; what leaves the process now are ``outputs``."""
        step = self._landed(output)
        if step is not None and step is self._open:
            self._close(step)
        if step is not None and step.traced:
            self._unsent.append(self._encoded(step, at))
            self._failures = 0
        self._send(outputs)

    def snapshot(self) -> bytes:
        """See ``BlockSnapshot``. Raises where the inside of vLLM is not known."""
        if self._open is not None:
            self._close(self._open)
        for step in self._flying:
            step.seen = True
        pool, scheduler = self._pool, self._scheduler
        cached = [block.block_id for block in self._free.get_all_free_blocks() if block.block_hash is not None]
        total = pool.num_gpu_blocks - 1
        used = total - pool.get_num_free_blocks()
        tables = []
        shared: dict[int, int] = {}
        for request in scheduler.running:
            seen = self._seen.get(request.request_id)
            name = seen.name if seen is not None else public_id(request.request_id)
            table = self._tables.get(request.request_id, ())
            tables.append((name, [block.block_id for block in table], request.num_computed_tokens))
            shared.update({block.block_id: block.ref_cnt for block in table if block.ref_cnt > 1 and not block.is_null})
        head = (self.step, time.time(), scheduler.block_size, total, used, len(cached))
        return encode_snapshot(
            head, tables, sorted(shared.items()), cached, waiting_head(self._scheduler, _WAITING_TOLD)
        )

    def failed(self, error: Exception) -> None:
        """A step is lost. All tables will be told anew, and after many failures in a row nothing is."""
        self.dropped += 1
        self._failures += 1
        self._queue = None
        for seen in self._seen.values():
            seen.blocks = 0
        if self._failures == 1:
            _log.error("a step could not be traced", exc_info=error)
        if self._failures >= _FAILURES:
            self._give_up(f"the trace failed {self._failures} times in a row: {type(error).__name__}: {error}")

    def _give_up(self, problem: str) -> None:
        _log.error("no step trace any more", extra={"cause": problem})
        self.problem, self._open = problem, None
        self._flying.clear()
        self._seen.clear()
        self._names.clear()
        self._finished.clear()
        self._preempted.clear()
        self._unsent = [encode((self.dropped, problem))]

    def last_words(self, outputs: dict[int, Any]) -> None:
        """After the trace was given up: tell why."""
        try:
            if self._unsent:
                self._send(outputs)
        except Exception:
            self._unsent.clear()

    def _rows(self, scheduled: dict[str, int], starting: Container[str]) -> list[Row]:
        requests, tables, seen_by = self._scheduler.requests, self._tables, self._seen
        rows: list[Row] = []
        for request_id, tokens in scheduled.items():
            request, seen, blocks = requests[request_id], seen_by[request_id], tables[request_id]
            # In flight: tokens that earlier steps will give.
            computed, in_flight = request.num_computed_tokens, request.num_output_placeholders
            if computed + tokens < request.num_tokens + in_flight:
                kind = PREFILL
            elif request.is_prefill_chunk or request_id in starting:
                kind = LAST_PREFILL
            else:
                kind = DECODE
            count, told = len(blocks), seen.blocks
            rows.append(
                (
                    seen.name,
                    kind,
                    tokens,
                    computed,
                    request.num_prompt_tokens,
                    request.num_output_tokens + in_flight,
                    seen.cached,
                    request.priority,
                    seen.joined,
                    seen.resumed,
                    () if told == count else [block.block_id for block in blocks[told:]],
                    count,
                )
            )
            seen.blocks = count
            seen.joined = seen.resumed = False
        return rows

    def _note_preempted(self, request_ids: set[str]) -> None:
        seen_now = [seen for request_id in request_ids if (seen := self._seen.get(request_id)) is not None]
        for seen in sorted(seen_now, key=lambda seen: seen.name):
            if self.mode != OFF or seen.blocks:
                self._preempted.append(seen.name)
            seen.blocks = 0

    def _waiting(self) -> tuple[int, list[Waiting] | None]:
        """The queue's length and its head, or None for a head that is as it was told last."""
        total = self._scheduler.get_request_counts()[1]
        if self._queue == (total, False):
            return total, None
        head = waiting_head(self._scheduler, _WAITING_TOLD)
        # What a preempted request has in flight may still come.
        self._queue = (total, any(preempted for *_, preempted in head))
        return total, head

    def _close(self, step: _Step) -> None:
        self._open = None
        self._ended = False
        if step.traced:
            step.finished += self._finished
            self._finished = []
            step.used = self._pool.num_gpu_blocks - 1 - self._pool.get_num_free_blocks()
            step.cached_free = self._free.cached

    def _landed(self, output: Any) -> _Step | None:
        """The step whose output came. Steps come back in their order."""
        flying = self._flying
        while flying:
            step = flying.popleft()
            if step.output is output:
                return step
            self.dropped += step.traced
        return None

    def _encoded(self, step: _Step, at: float) -> bytes:
        try:
            return encode_step(
                step=step.number,
                started_unix=step.started_unix,
                schedule_s=step.schedule_s,
                execute_s=at - step.scheduled_at,
                tokens=step.output.total_num_scheduled_tokens,
                rows=step.rows,
                waiting=step.waiting,
                waiting_total=step.waiting_total,
                preempted=step.preempted,
                finished=step.finished,
                total_blocks=self._pool.num_gpu_blocks - 1,
                used_blocks=step.used,
                cached_free_blocks=step.cached_free,
                dropped=self.dropped,
            )
        except Exception:
            self._preempted[:0] = step.preempted
            self._finished[:0] = step.finished
            raise

    def _send(self, outputs: dict[int, Any]) -> None:
        if not self._unsent:
            return
        for output in outputs.values():
            stats = output.scheduler_stats
            if stats is not None:
                stats.ec_connector_stats = {**(stats.ec_connector_stats or {}), PAYLOAD: self._unsent}
                self._unsent = []
                return
        if len(self._unsent) > _UNSENT:
            self._give_up("vLLM sends no statistics, and steps travel with them")

    def _new_name(self, request_id: str) -> str:
        """What people call the request; its internal id where another of that name lives, or has just ended."""
        name = public_id(request_id)
        if name in self._names or any(name == ended for ended, *_ in self._finished):
            name = request_id
        self._names.add(name)
        return name
