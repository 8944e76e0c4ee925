"""vLLM's own scheduler, traced, without a model: what a step scheduled is answered with made-up tokens."""

from __future__ import annotations

import functools
import itertools
import json
import os
import tempfile
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from control_plane.contracts.block_tables import BlockTables
from control_plane.contracts.kv_events import KvBatch
from control_plane.contracts.step import BlockSnapshot, EngineStep
from workers.engine import vllm_env
from workers.engine.choice_id import internal_id, public_id
from workers.engine.step_payload import StepDecoder, decode, decode_snapshot
from workers.engine.vllm_kv import CacheEvents
from workers.engine.vllm_kv_events import KV_PAYLOAD
from workers.engine.vllm_tracer import PAYLOAD, Tracer

BLOCK = 32
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 192,
    "intermediate_size": 512,
    "num_attention_heads": 3,
    "num_key_value_heads": 3,
    "num_hidden_layers": 1,
    "vocab_size": 4096,
    "max_position_embeddings": 2048,
    "torch_dtype": "bfloat16",
}
EOS = 2


@dataclass(frozen=True)
class Truth:
    """What the scheduler itself holds, by a walk over its whole pool."""

    tables: dict[str, tuple[int, ...]]
    used: int
    cached_free: int
    free: int


class Stand:
    """One scheduler. ``steps`` are those that were told so far, ``truths`` by step number what held when it closed."""

    def __init__(
        self,
        *,
        blocks: int = 65,
        budget: int = 128,
        sequences: int = 8,
        policy: str = "priority",
        ahead: bool = False,
        kv_events: bool = False,
    ) -> None:
        self.ahead = ahead
        self.scheduler = _scheduler(blocks, budget, sequences, policy, ahead, kv_events)
        self.tracer: Tracer = self.scheduler._tracer
        self.steps: list[EngineStep] = []
        self.truths: dict[int, Truth] = {}
        self.payloads: list[bytes] = []
        self.batches: list[KvBatch] = []
        self.kv = CacheEvents(self.batches.extend)
        self._decoder = StepDecoder()
        self._numbers = itertools.count(1)
        self._internal: dict[str, str] = {}
        self._flying: deque[tuple[Any, set[str], int]] = deque()
        self._open = 0

    def add(
        self, name: str, prompt: Sequence[int], tokens: int, *, priority: int = 0, choice: int = 0, salt: str = ""
    ) -> str:
        from vllm.sampling_params import SamplingParams
        from vllm.v1.request import Request

        number = next(self._numbers)
        internal = internal_id(name, number, choice)
        self._internal[public_id(internal)] = internal
        self.scheduler.add_request(
            Request(
                request_id=internal,
                prompt_token_ids=list(prompt),
                sampling_params=SamplingParams(max_tokens=tokens, stop_token_ids=[EOS]),
                pooling_params=None,
                priority=priority,
                arrival_time=float(number),
                cache_salt=salt or None,
                block_hasher=_block_hasher(),
            )
        )
        return internal

    def abort(self, name: str) -> None:
        from vllm.v1.request import RequestStatus

        self.scheduler.finish_requests(self._internal[name], RequestStatus.FINISHED_ABORTED)

    def run(self, limit: int = 500, between: Callable[[int], None] | None = None) -> list[EngineStep]:
        """Until nothing is left to do. ``between`` is called before each schedule, with its number."""
        for turn in range(limit):
            if between is not None:
                between(turn)
            if not self.scheduler.has_requests() and not self._flying:
                return self.steps
            self.turn()
        raise AssertionError(f"still busy after {limit} turns")

    def turn(self) -> None:
        """A schedule, and the output of the oldest one where no more may be in flight: like the core's own loop."""
        if self.scheduler.has_requests():
            self.schedule()
            if self.ahead and len(self._flying) < 2:
                return
        if self._flying:
            self.land()

    def schedule(self) -> None:
        if self._open:
            self.truths[self._open] = self.truth()
        before = self.tracer.step
        output = self.scheduler.schedule()
        giving = {name for name in output.num_scheduled_tokens if not self.scheduler.requests[name].is_prefill_chunk}
        number = self.tracer.step if self.tracer.step > before else 0
        self._flying.append((output, giving, number))
        if number:
            self._open = number

    def land(self, token: int = 7) -> None:
        from vllm.v1.outputs import ModelRunnerOutput

        output, giving, number = self._flying.popleft()
        names = list(output.num_scheduled_tokens)
        outputs = self.scheduler.update_from_output(
            output,
            ModelRunnerOutput(
                req_ids=names,
                req_id_to_index={name: index for index, name in enumerate(names)},
                sampled_token_ids=[[token] if name in giving else [] for name in names],
                logprobs=None,
                prompt_logprobs_dict={},
                pooler_output=[],
            ),
        )
        if number and number == self._open:
            self.truths[number] = self.truth()
            self._open = 0
        for each in outputs.values():
            if each.scheduler_stats is not None and each.scheduler_stats.ec_connector_stats:
                self.kv.receive(each.scheduler_stats.ec_connector_stats.get(KV_PAYLOAD, ()))
                for data in each.scheduler_stats.ec_connector_stats.get(PAYLOAD, ()):
                    self.payloads.append(data)
                    fields = decode(data)
                    if len(fields) > 2:
                        self.steps.append(self._decoder.step(fields))

    def truth(self) -> Truth:
        scheduler = self.scheduler
        blocks = [block for block in scheduler.kv_cache_manager.block_pool.blocks if not block.is_null]
        idle = [block for block in blocks if not block.ref_cnt]
        cached = sum(block.block_hash is not None for block in idle)
        tables = {
            public_id(request.request_id): tuple(scheduler.kv_cache_manager.get_block_ids(request.request_id)[0])
            for request in scheduler.running
        }
        return Truth(tables, len(blocks) - len(idle), cached, len(idle) - cached)

    def cache(self) -> set[int]:
        """vLLM's own hashes of all that its block pool can hit, as its events name them."""
        from vllm.v1.core.kv_cache_utils import get_block_hash, maybe_convert_block_hash

        pool = self.scheduler.kv_cache_manager.block_pool
        return {maybe_convert_block_hash(get_block_hash(key)) for key in pool.cached_block_hash_to_block._cache}

    def cached_blocks(self) -> int:
        """Blocks with content, equal ones each."""
        return sum(block.block_hash is not None for block in self.scheduler.kv_cache_manager.block_pool.blocks)

    def hits(self, prompt: Sequence[int], salt: str = "") -> int:
        """Leading blocks of a prompt that the scheduler would hit now."""
        from vllm.sampling_params import SamplingParams
        from vllm.v1.request import Request

        asked = Request(
            request_id="asked",
            prompt_token_ids=list(prompt),
            sampling_params=SamplingParams(max_tokens=1),
            pooling_params=None,
            cache_salt=salt or None,
            block_hasher=_block_hasher(),
        )
        return int(self.scheduler.kv_cache_manager.get_computed_blocks(asked)[1]) // BLOCK

    def snapshot(self) -> BlockSnapshot:
        return decode_snapshot(self.tracer.snapshot())


def check(stand: Stand) -> BlockTables:
    """Every step's sums, and the tables that follow from the steps, against what the scheduler held."""
    tables = BlockTables()
    for step in stand.steps:
        tables.apply(step)
        truth = stand.truths[step.step]
        assert {table.request_id: table.blocks for table in tables.tables()} == truth.tables, step.step
        assert (step.used_blocks, step.cached_free_blocks, step.free_blocks) == (
            truth.used,
            truth.cached_free,
            truth.free,
        ), step.step
        assert tables.used() == step.used_blocks
        assert step.used_blocks + step.cached_free_blocks + step.free_blocks == step.total_blocks
        assert step.tokens == sum(row.tokens for row in step.rows)
        assert all(row.blocks == len(tables.blocks(row.request_id)) or _left(step, row.request_id) for row in step.rows)
    return tables


def _left(step: EngineStep, name: str) -> bool:
    return any(finished.request_id == name for finished in step.finished)


_FOLDER = tempfile.TemporaryDirectory(prefix="inferdeck-test-")


@functools.cache
def _config(budget: int, sequences: int, policy: str) -> Any:
    """Making one takes most of a second."""
    vllm_env.prepare_import(on_cpu=True)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.core.kv_cache_utils import init_none_hash

    init_none_hash(_hash())
    (Path(_FOLDER.name) / "config.json").write_text(json.dumps(CONFIG))
    return AsyncEngineArgs(
        model=_FOLDER.name,
        skip_tokenizer_init=True,
        dtype="bfloat16",
        max_model_len=2048,
        max_num_seqs=sequences,
        max_num_batched_tokens=budget,
        block_size=BLOCK,
        enable_prefix_caching=True,
        enforce_eager=True,
        scheduling_policy=policy,
        prefix_caching_hash_algo="sha256_cbor",
        kv_cache_memory_bytes=1 << 28,
        async_scheduling=False,
    ).create_engine_config()


def _scheduler(blocks: int, budget: int, sequences: int, policy: str, ahead: bool, kv_events: bool) -> Any:
    config = _config(budget, sequences, policy)
    import torch
    from vllm.config import KVEventsConfig
    from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
    from vllm.v1.structured_output import StructuredOutputManager

    from workers.engine.vllm_scheduler import AsyncWorkerScheduler, WorkerScheduler

    config.cache_config.num_gpu_blocks = blocks
    config.kv_events_config = KVEventsConfig(enable_kv_cache_events=kv_events, publisher="null")
    spec = FullAttentionSpec(block_size=BLOCK, num_kv_heads=3, head_size=64, dtype=torch.bfloat16)
    kv = KVCacheConfig(num_blocks=blocks, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["l0"], spec)])
    make = AsyncWorkerScheduler if ahead else WorkerScheduler
    return make(
        vllm_config=config,
        kv_cache_config=kv,
        structured_output_manager=StructuredOutputManager(config),
        block_size=BLOCK,
        hash_block_size=BLOCK,
        log_stats=True,
    )


def _hash() -> Any:
    from vllm.utils.hashing import get_hash_fn_by_name

    return get_hash_fn_by_name("sha256_cbor")


def _block_hasher() -> Any:
    from vllm.v1.core.kv_cache_utils import get_request_block_hasher

    return get_request_block_hasher(BLOCK, _hash())
