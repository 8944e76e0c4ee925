"""The engine's counters, from vLLM's statistics of each step."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from vllm.v1.metrics.loggers import AggregateStatLoggerBase

from workers.engine.vllm_kv_events import KV_PAYLOAD
from workers.engine.vllm_tracer import PAYLOAD

OnPayloads = Callable[[Sequence[bytes]], None]

_log = logging.getLogger(__name__)


class Counters:
    """Totals since the engine started, and the scheduler's state at its last report."""

    __slots__ = (
        "cached_tokens",
        "generated_tokens",
        "kv_usage",
        "preemptions",
        "prompt_tokens",
        "running",
        "steps",
    )

    def __init__(self) -> None:
        self.generated_tokens = 0
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.preemptions = 0
        self.steps = 0
        self.running = 0
        self.kv_usage = 0.0


def _unheard(payloads: Sequence[bytes]) -> None:
    pass


class StepStats(AggregateStatLoggerBase):  # type: ignore[misc]
    """vLLM calls this once per step. It may not raise: that would end vLLM's output loop.

    ``last_scheduler_stats`` is where the published service looks for the load.
    """

    def __init__(
        self, counters: Counters, on_steps: OnPayloads = _unheard, on_kv_events: OnPayloads = _unheard
    ) -> None:
        self._counters = counters
        self._on_steps = on_steps
        self._on_kv_events = on_kv_events
        self.engine_index = 0
        self.last_scheduler_stats: Any = None

    def record(
        self, scheduler_stats: Any, iteration_stats: Any, mm_cache_stats: Any = None, engine_idx: int = 0
    ) -> None:
        try:
            counters = self._counters
            if scheduler_stats is not None:
                self.last_scheduler_stats = scheduler_stats
                counters.steps += 1
                counters.running = scheduler_stats.num_running_reqs
                counters.kv_usage = scheduler_stats.kv_cache_usage
                if scheduler_stats.ec_connector_stats:
                    self._take_payloads(scheduler_stats)
            if iteration_stats is not None:
                # Only requests that took vLLM's own way are in here.
                counters.generated_tokens += iteration_stats.num_generation_tokens
                counters.prompt_tokens += iteration_stats.prompt_token_stats.total
                counters.cached_tokens += iteration_stats.prompt_token_stats.cached_tokens
                counters.preemptions += iteration_stats.num_preempted_reqs
        except Exception:
            _log.exception("the statistics of a step were lost")

    def log_engine_initialized(self) -> None:
        pass

    def _take_payloads(self, scheduler_stats: Any) -> None:
        """Ours travel where vLLM has room for a connector's statistics, and are not to be taken for those."""
        connector = dict(scheduler_stats.ec_connector_stats)
        steps, kv_events = connector.pop(PAYLOAD, ()), connector.pop(KV_PAYLOAD, ())
        scheduler_stats.ec_connector_stats = connector or None
        self._on_steps(steps)
        if kv_events:
            self._on_kv_events(kv_events)


def factory(counters: Counters, on_steps: OnPayloads, on_kv_events: OnPayloads = _unheard) -> Any:
    """What ``AsyncLLM`` takes as a stat logger's factory: a class. The two hear the payloads of the trace and of the KV
    events."""

    class Ours(StepStats):
        def __init__(self, vllm_config: Any, engine_indexes: list[int]) -> None:
            super().__init__(counters, on_steps, on_kv_events)

    return Ours


def keep_only_ours(llm: Any) -> None:
    """Take vLLM's Prometheus logger out, which it adds to any other: half of its front end's time per token."""
    manager = llm.logger_manager
    manager.stat_loggers = [logger for logger in manager.stat_loggers if isinstance(logger, StepStats)]
