"""vLLM's real scheduler without a model: every request that has caught up is given its next token by hand.

It is the worker's own scheduler class, so that what its trace publishes is compared too.
"""

from __future__ import annotations

import dataclasses
import json
from collections import deque
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from control_plane.contracts.kv_events import KvBatch, KvFrame
from control_plane.contracts.kv_mirror import KvMirror
from control_plane.contracts.step import EngineStep
from tests.parity.observed import SNAPSHOT_EVERY, Seen, SeenRow
from tests.parity.trace import STOP, Arrival
from workers.engine import vllm_env
from workers.engine.sim.config import SchedulerConfig
from workers.engine.step_payload import StepDecoder, decode, decode_snapshot
from workers.engine.vllm_kv import CacheEvents

_MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "num_hidden_layers": 1,
    "vocab_size": 8192,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}
"""The scheduler asks a model's configuration for nothing else, and no weights are read."""

_SET_BY_VLLM = ("VLLM_WORKER_MULTIPROC_METHOD", "LD_PRELOAD", "LD_LIBRARY_PATH", "LOCAL_WORLD_SIZE")


@cache
def _vllm_config() -> Any:
    """Made once in a process: it takes as long as many traces. Each trace sets its own fields in it."""
    vllm_env.prepare_import(on_cpu=True)
    from vllm.config import KVEventsConfig
    from vllm.engine.arg_utils import AsyncEngineArgs

    with TemporaryDirectory() as folder, vllm_env.restored(*_SET_BY_VLLM):
        Path(folder, "config.json").write_text(json.dumps(_MODEL), encoding="utf-8")
        return AsyncEngineArgs(
            model=folder,
            skip_tokenizer_init=True,
            dtype="bfloat16",
            max_model_len=4096,
            block_size=32,
            enforce_eager=True,
            async_scheduling=False,
            kv_cache_memory_bytes=1 << 28,
            kv_events_config=KVEventsConfig(enable_kv_cache_events=True, publisher="null"),
        ).create_engine_config()


@cache
def _hasher(block_size: int) -> Callable[[Any], list[Any]]:
    from vllm.utils.hashing import get_hash_fn_by_name
    from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash

    function = get_hash_fn_by_name("sha256_cbor")
    init_none_hash(function)
    hasher: Callable[[Any], list[Any]] = get_request_block_hasher(block_size, function)
    return hasher


@cache
def _traced_scheduler(async_scheduling: bool) -> Any:
    from vllm.v1.core.sched.async_scheduler import AsyncScheduler
    from vllm.v1.core.sched.scheduler import Scheduler

    from workers.engine.vllm_kv_events import KvEvents
    from workers.engine.vllm_trace import StepTrace

    theirs: Any = AsyncScheduler if async_scheduling else Scheduler

    class TracedScheduler(KvEvents, StepTrace, theirs):  # type: ignore[misc]
        pass

    return TracedScheduler


def _scheduler(config: SchedulerConfig) -> Any:
    import torch
    from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
    from vllm.v1.structured_output import StructuredOutputManager

    vllm = _vllm_config()
    blocks = config.total_blocks + 1  # with the placeholder
    vllm.model_config.max_model_len = config.max_model_len
    vllm.cache_config.num_gpu_blocks = blocks
    vllm.cache_config.block_size = config.block_size
    vllm.cache_config.enable_prefix_caching = config.enable_prefix_caching
    vllm.kv_events_config.enable_kv_cache_events = config.enable_prefix_caching
    for name in (
        "max_num_seqs",
        "max_num_batched_tokens",
        "policy",
        "enable_chunked_prefill",
        "long_prefill_token_threshold",
        "long_prefill_token_threshold_adaptive",
        "scheduler_reserve_full_isl",
        "watermark",
        "async_scheduling",
    ):
        setattr(vllm.scheduler_config, name, getattr(config, name))
    spec = FullAttentionSpec(block_size=config.block_size, num_kv_heads=1, head_size=64, dtype=torch.bfloat16)
    return _traced_scheduler(config.async_scheduling)(
        vllm_config=vllm,
        kv_cache_config=KVCacheConfig(
            num_blocks=blocks, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)]
        ),
        structured_output_manager=StructuredOutputManager(vllm),
        block_size=config.block_size,
        hash_block_size=config.block_size,
        log_stats=True,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Flight:
    """A step, and the tokens that its forward gives, by request in its order; none for those that still prefill."""

    output: Any
    sampled: dict[str, list[int]]


class VllmSide:
    def __init__(self, config: SchedulerConfig) -> None:
        self._config = config
        self._scheduler = _scheduler(config)
        self._manager = self._scheduler.kv_cache_manager
        self._pool = self._manager.block_pool
        self._outputs: dict[str, tuple[int, ...]] = {}
        self._known: dict[str, int] = {}
        self._cached: dict[str, int] = {}
        self._finished: list[tuple[str, str, int, int]] = []
        self._flying: deque[_Flight] = deque()
        self._rows: list[SeenRow] = []
        self._preempted: set[str] = set()
        self._scheduled_counts = (0, 0, 0)
        self._decoder = StepDecoder()
        self._batches: list[KvBatch] = []
        self._mirror = KvMirror()
        self._events = CacheEvents(self._batches.extend)
        self._free_request = self._scheduler._free_request
        self._scheduler._free_request = self._note_end

    def add(self, arrival: Arrival) -> None:
        from vllm.sampling_params import SamplingParams
        from vllm.v1.request import Request

        request = arrival.request
        self._outputs[request.request_id] = arrival.output
        self._scheduler.add_request(
            Request(
                request_id=request.request_id,
                prompt_token_ids=list(request.prompt_token_ids),
                sampling_params=SamplingParams(max_tokens=request.max_tokens, ignore_eos=True, stop_token_ids=[STOP]),
                pooling_params=None,
                priority=request.priority,
                arrival_time=request.arrival,
                cache_salt=request.cache_salt or None,
                block_hasher=_hasher(self._config.block_size) if self._config.enable_prefix_caching else None,
            )
        )

    def abort(self, request_id: str) -> None:
        from vllm.v1.request import RequestStatus

        self._scheduler.finish_requests(request_id, RequestStatus.FINISHED_ABORTED)

    def reset(self) -> bool:
        return bool(self._scheduler.reset_prefix_cache())

    def idle(self) -> bool:
        return bool(self._scheduler.get_num_unfinished_requests() == 0)

    def schedule(self) -> bool:
        output = self._scheduler.schedule()
        starting = {new.req_id: new.num_computed_tokens for new in output.scheduled_new_reqs}
        # Some of vLLM's model runners are told of a resumed request as of a new one.
        joined = starting.keys() - self._cached.keys()
        resumed = (starting.keys() | output.scheduled_cached_reqs.resumed_req_ids) - joined
        self._cached |= {request_id: starting[request_id] for request_id in joined}
        sampled: dict[str, list[int]] = {}
        for request_id, tokens in output.num_scheduled_tokens.items():
            request = self._scheduler.requests[request_id]
            # Of these, the one that this step gives is in vLLM's count already.
            coming = request.num_output_placeholders
            gives = not request.is_prefill_chunk
            at = request.num_output_tokens + coming - (gives and self._config.async_scheduling)
            sampled[request_id] = list(self._outputs[request_id][at : at + gives]) or [0] * gives
            table = self._table(request_id)
            begun = request_id in joined or request_id in resumed
            known = 0 if begun else self._known[request_id]
            self._known[request_id] = len(table)
            self._rows.append(
                SeenRow(
                    request_id,
                    tokens,
                    request.num_computed_tokens - tokens,
                    at,
                    self._cached[request_id],
                    request_id in joined,
                    request_id in resumed,
                    table[known:],
                    len(table),
                )
            )
        self._preempted.update(output.preempted_req_ids or ())
        self._flying.append(_Flight(output, sampled))
        self._scheduled_counts = self._counts(len(self._cached_free()))
        return bool(sampled)

    def complete(self, reset: bool | None) -> Seen:
        from vllm.v1.outputs import ModelRunnerOutput
        from vllm.v1.request import RequestStatus

        scheduler, flight = self._scheduler, self._flying.popleft()
        ids = list(flight.sampled)
        outputs = scheduler.update_from_output(
            flight.output,
            ModelRunnerOutput(
                req_ids=ids,
                req_id_to_index={request_id: index for index, request_id in enumerate(ids)},
                sampled_token_ids=list(flight.sampled.values()),
                logprobs=None,
                prompt_logprobs_dict={},
                pooler_output=[],
            ),
        )
        rows, self._rows = tuple(self._rows), []
        preempted, self._preempted = frozenset(self._preempted), set()
        running = [request.request_id for request in scheduler.running]
        cached_free = self._cached_free()
        published = self._published(outputs)
        batch = self._told(outputs)
        snapshot = None
        if published is not None and not published.step % SNAPSHOT_EVERY:
            snapshot = dataclasses.replace(decode_snapshot(scheduler._tracer.snapshot()), taken_unix=0.0)
        return Seen(
            published=published,
            snapshot=snapshot,
            rows=rows,
            preempted=preempted,
            waiting=tuple(
                (
                    request.request_id,
                    request.num_tokens,
                    request.priority,
                    request.status == RequestStatus.PREEMPTED,
                )
                for request in scheduler.waiting
            ),
            scheduled_counts=self._scheduled_counts,
            finished=self._ended(published),
            counts=self._counts(len(cached_free)),
            tables=tuple(
                (request_id, scheduler.requests[request_id].num_computed_tokens, self._table(request_id))
                for request_id in running
            ),
            shared=tuple((block.block_id, block.ref_cnt) for block in self._pool.blocks if block.ref_cnt > 1),
            cached_free=cached_free,
            reset=reset,
            kv_batch=batch,
            told=len(self._mirror.hashes),
        )

    def _told(self, outputs: dict[int, Any]) -> KvBatch | None:
        """What the worker makes of the step's KV events, which has to leave what vLLM's own pool can hit."""
        from vllm.v1.core.kv_cache_utils import get_block_hash, maybe_convert_block_hash

        from workers.engine.vllm_kv_events import KV_PAYLOAD

        for output in outputs.values():
            if output.scheduler_stats is not None:
                self._events.receive((output.scheduler_stats.ec_connector_stats or {}).get(KV_PAYLOAD, ()))
        if self._config.enable_prefix_caching:
            assert not self._events.unavailable, self._events.unavailable
        batches = tuple(self._batches)
        self._batches.clear()
        assert len(batches) <= 1, "a step tells once"
        assert self._mirror.apply(KvFrame(batches=batches))
        theirs = {maybe_convert_block_hash(get_block_hash(key)) for key in self._pool.cached_block_hash_to_block._cache}
        assert self._events.translation.known() == theirs
        assert self._mirror.hashes == set(self._events.snapshot().hashes)
        assert len(self._mirror.hashes) == len(theirs)
        return batches[0] if batches else None

    def _published(self, outputs: dict[int, Any]) -> EngineStep | None:
        """What the worker's trace of vLLM tells of the step, without its times."""
        from workers.engine.vllm_tracer import PAYLOAD

        assert not self._scheduler._tracer.problem, self._scheduler._tracer.problem
        told = [
            payload
            for output in outputs.values()
            if output.scheduler_stats is not None
            for payload in (output.scheduler_stats.ec_connector_stats or {}).get(PAYLOAD, ())
        ]
        steps = [self._decoder.step(decode(payload)) for payload in told]
        assert len(steps) <= 1, "a step comes with its own output"
        return dataclasses.replace(steps[0], started_unix=0.0, schedule_s=0.0, execute_s=0.0) if steps else None

    def _ended(self, published: EngineStep | None) -> tuple[tuple[str, str, int, int], ...]:
        """What ended by the scheduler's own word. Where steps overlap, as many as belong to this one."""
        count = len(self._finished)
        if self._config.async_scheduling:
            count = len(published.finished) if published is not None else 0
        ended, self._finished = tuple(self._finished[:count]), self._finished[count:]
        return ended

    def _note_end(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        reason = str(request.get_finished_reason()).lower()
        freed = len(self._table(request.request_id))
        self._finished.append((request.request_id, reason, request.num_output_tokens, freed))
        return self._free_request(request, *args, **kwargs)

    def _table(self, request_id: str) -> tuple[int, ...]:
        return tuple(self._manager.get_block_ids(request_id)[0])

    def _cached_free(self) -> tuple[int, ...]:
        free = self._pool.free_block_queue.get_all_free_blocks()
        return tuple(block.block_id for block in free if block.block_hash is not None)

    def _counts(self, cached_free: int) -> tuple[int, int, int]:
        free = self._pool.get_num_free_blocks()
        return (self._config.total_blocks - free, cached_free, free - cached_free)
