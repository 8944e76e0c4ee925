"""The load that a simulated engine tells: its own, or that of when it was frozen."""

from __future__ import annotations

from control_plane.contracts.failure import FailureKind
from workers.engine.base import EngineLoad
from workers.engine.sim.failures import Failures
from workers.engine.sim.scheduler import SimScheduler
from workers.engine.sim.totals import Totals


class Gauge:
    def __init__(self, scheduler: SimScheduler, totals: Totals, failures: Failures) -> None:
        self._scheduler = scheduler
        self._totals = totals
        self._failures = failures
        self._frozen: EngineLoad | None = None

    def read(self, now: float) -> EngineLoad:
        """``now`` is on the failures' clock."""
        frozen = self._failures.on(FailureKind.FREEZE_LOAD, now)
        if frozen and self._frozen is not None:
            return self._frozen
        (running, waiting), totals = self._scheduler.sizes(), self._totals
        load = EngineLoad(
            running=running,
            waiting=waiting,
            total_blocks=self._scheduler.config.total_blocks,
            used_blocks=self._scheduler.counts().used,
            generated_tokens=totals.generated,
            prompt_tokens=totals.prompt,
            cached_tokens=totals.cached,
            preemptions=totals.preemptions,
            steps=totals.steps,
        )
        self._frozen = load if frozen else None
        return load
