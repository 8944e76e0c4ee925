"""From a worker's spec to vLLM's engine arguments, as plain values."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from pathlib import Path
from typing import Any

from control_plane.contracts.errors import SettingsError
from control_plane.contracts.worker_spec import WorkerSpec

CPU_BLOCK_SIZE = 32  # the least that vLLM's CPU kernels take; smaller blocks share more prefixes

_OWN_SETTINGS = {
    "model": "source",
    "tokenizer": "source",
    "revision": "revision",
    "dtype": "dtype",
    "max_model_len": "max_context",
    "kv_cache_memory_bytes": "kv_memory",
    "tensor_parallel_size": "tensor_parallel",
    "served_model_name": "model",
    "kv_events_config": "kv_events",
}
_RESERVED = {
    "scheduler_cls": "InferDeck's own scheduler watches over the engine",
    "disable_log_stats": "the console shows them",
    "skip_tokenizer_init": "the engine makes the text",
    "distributed_executor_backend": "it follows from tensor_parallel",
}


def engine_arguments(
    spec: WorkerSpec, folder: Path, known: Collection[str], *, on_cpu: bool, fast_bfloat16: bool = True
) -> dict[str, Any]:
    """Arguments for ``AsyncEngineArgs``; ``known`` are the names it takes.

    ``fast_bfloat16`` tells whether the processor has instructions for it: emulated, it is eight times slower than
    float32, so "auto" avoids it.

    The pool's ``engine_args`` win over the defaults here. Raises SettingsError for one that vLLM does not know, or
    that another setting or InferDeck itself decides.
    """
    for name in spec.engine_args:
        if name in _OWN_SETTINGS:
            raise SettingsError(
                f"{name} is no engine argument of a pool",
                param=f"engine_args.{name}",
                hint=f"set {_OWN_SETTINGS[name]} in the pool",
            )
        if name in _RESERVED:
            raise SettingsError(f"{name} cannot be set: {_RESERVED[name]}", param=f"engine_args.{name}")
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise SettingsError(
                f"vLLM has no engine argument {name!r}",
                param=f"engine_args.{name}",
                hint=f"did you mean {near[0]}?" if near else "docs.vllm.ai lists them, with - for _",
            )
    arguments: dict[str, Any] = {
        "model": str(folder),
        "served_model_name": spec.model,
        "dtype": spec.dtype,
        "tensor_parallel_size": spec.tensor_parallel,
        "enable_prefix_caching": True,
        # A router can compute the same hashes from token ids.
        "prefix_caching_hash_algo": "sha256_cbor",
        "scheduling_policy": "priority",
    }
    if spec.max_context:
        arguments["max_model_len"] = spec.max_context
    if spec.kv_bytes:
        arguments["kv_cache_memory_bytes"] = spec.kv_bytes
    if on_cpu and spec.dtype == "auto" and not fast_bfloat16:
        arguments["dtype"] = "float32"
    if on_cpu:
        # Compiling takes a minute and gains nothing on the CPU.
        arguments |= {"block_size": CPU_BLOCK_SIZE, "enforce_eager": True, "async_scheduling": False}
        arguments["distributed_executor_backend"] = "mp" if spec.tensor_parallel > 1 else "uni"
        arguments["scheduler_cls"] = "workers.engine.vllm_scheduler.WorkerScheduler"
    else:
        arguments["scheduler_cls"] = "workers.engine.vllm_scheduler.AsyncWorkerScheduler"
    arguments |= spec.engine_args
    if not on_cpu and arguments.get("async_scheduling") is False:
        arguments["scheduler_cls"] = "workers.engine.vllm_scheduler.WorkerScheduler"
    return arguments
