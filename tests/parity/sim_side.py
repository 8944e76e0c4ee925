"""The simulated scheduler, seen through the steps that it publishes."""

from __future__ import annotations

from collections.abc import Callable

from control_plane.contracts.block_tables import BlockTables
from control_plane.contracts.kv_events import KvFrame
from control_plane.contracts.kv_mirror import KvMirror
from tests.parity.observed import SNAPSHOT_EVERY, Seen, SeenRow
from tests.parity.trace import STOP, Arrival
from workers.engine.kv_journal import KvJournal
from workers.engine.sim.config import SchedulerConfig
from workers.engine.sim.engine_step import engine_step
from workers.engine.sim.scheduled import Scheduled
from workers.engine.sim.scheduler import SimScheduler

MakeScheduler = Callable[[SchedulerConfig, KvJournal | None], SimScheduler]


class SimSide:
    def __init__(self, config: SchedulerConfig, make: MakeScheduler = SimScheduler) -> None:
        self._journal = KvJournal()
        self._mirror = KvMirror()
        self._scheduler = make(config, self._journal if config.enable_prefix_caching else None)
        self._outputs: dict[str, tuple[int, ...]] = {}
        self._tables = BlockTables()
        self._scheduled = Scheduled(0, 0.0)
        self._scheduled_counts = self._scheduler.counts()

    def add(self, arrival: Arrival) -> None:
        self._outputs[arrival.request.request_id] = arrival.output
        self._scheduler.add(arrival.request)

    def abort(self, request_id: str) -> None:
        self._scheduler.abort(request_id)

    def reset(self) -> bool:
        return self._scheduler.reset_prefix_cache()

    def idle(self) -> bool:
        return self._scheduler.sizes() == (0, 0)

    def schedule(self) -> None:
        self._scheduled = self._scheduler.schedule(0.0)
        self._scheduled_counts = self._scheduler.counts()

    def complete(self, reset: bool | None) -> Seen:
        scheduler, scheduled = self._scheduler, self._scheduled
        rows = scheduled.rows
        due = set(scheduled.due)
        tokens = {
            row.request_id: [self._outputs[row.request_id][row.output_tokens]] for row in rows if row.request_id in due
        }
        ended = {request_id: "stop" for request_id, new in tokens.items() if new == [STOP]}
        finished = scheduler.complete(scheduled, tokens, ended)
        step = engine_step(scheduled, finished, scheduler.counts(), started_unix=0.0)
        # What a watcher makes of the published steps has to be what the scheduler holds.
        self._tables.apply(step)
        snapshot = scheduler.snapshot()
        tables = tuple((table.request_id, table.computed, table.blocks) for table in snapshot.tables)
        followed = {table.request_id: table.blocks for table in self._tables.tables()}
        assert followed == {request_id: blocks for request_id, _, blocks in tables}, "steps and snapshot differ"
        told = bool(step.rows or step.preempted or step.finished)
        batch = self._journal.batch()
        assert self._mirror.apply(KvFrame(batches=(batch,) if batch is not None else ()))
        assert self._mirror.hashes == self._journal.hashes == scheduler.cached_keys()
        return Seen(
            published=step if told else None,
            snapshot=snapshot if told and not step.step % SNAPSHOT_EVERY else None,
            rows=tuple(
                SeenRow(
                    row.request_id,
                    row.tokens,
                    row.computed,
                    row.output_tokens,
                    row.cached_tokens,
                    row.joined,
                    row.resumed,
                    row.new_blocks,
                    row.blocks,
                )
                for row in rows
            ),
            preempted=frozenset(step.preempted),
            waiting=tuple((one.request_id, one.tokens, one.priority, one.preempted) for one in scheduler.waiting()),
            scheduled_counts=self._scheduled_counts,
            finished=tuple((end.request_id, end.reason, end.output_tokens, end.freed_blocks) for end in finished),
            counts=(step.used_blocks, step.cached_free_blocks, step.free_blocks),
            tables=tables,
            shared=tuple((block.block, block.references) for block in snapshot.shared),
            cached_free=snapshot.cached_free,
            reset=reset,
            kv_batch=batch,
            told=len(self._mirror.hashes),
        )
