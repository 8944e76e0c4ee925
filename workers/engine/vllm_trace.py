"""Whether and how vLLM's scheduler can be followed step by step, from inside the engine core's process.

A mixin of the scheduler lets a ``Tracer`` (``vllm_tracer``) note each step while vLLM makes it. What it notes is sent
along with the statistics that leave the process anyway: no socket, no thread, and in order with the tokens.
``vllm_steps`` reads it on the other side.

These are private interfaces of vLLM, listed in ``_USED``: the trace touches them here, in ``vllm_tracer``,
``vllm_block_count`` and ``vllm_queue``. ``unsupported`` names the versions they were written against. Nothing here
raises into vLLM's loop: an exception there ends the engine for everyone.
"""

from __future__ import annotations

import importlib
import inspect
import time
from collections.abc import Iterable
from typing import Any

from workers.engine.vllm_tracer import Tracer

SUPPORTED = ("0.32",)
"""Versions of vLLM that the tests run against."""

_FOLLOWED = ("FullAttentionSpec", "MLAAttentionSpec")
_USED = (
    ("vllm.v1.core.sched.scheduler", "Scheduler", "schedule", ()),
    ("vllm.v1.core.sched.scheduler", "Scheduler", "update_from_output", ("scheduler_output",)),
    ("vllm.v1.core.sched.scheduler", "Scheduler", "_update_after_schedule", ("scheduler_output",)),
    ("vllm.v1.core.sched.scheduler", "Scheduler", "_free_request", ("request",)),
    ("vllm.v1.core.sched.scheduler", "Scheduler", "get_request_counts", ()),
    ("vllm.v1.core.block_pool", "BlockPool", "_remove_cached_block_hashes", ("block",)),
    ("vllm.v1.core.block_pool", "BlockPool", "_insert_block_hash", ("block",)),
    ("vllm.v1.core.block_pool", "BlockPool", "reset_prefix_cache", ()),
    ("vllm.v1.core.kv_cache_utils", "FreeKVCacheBlockQueue", "popleft", ()),
    ("vllm.v1.core.kv_cache_utils", "FreeKVCacheBlockQueue", "popleft_n", ("n",)),
    ("vllm.v1.core.kv_cache_utils", "FreeKVCacheBlockQueue", "remove", ("block",)),
    ("vllm.v1.core.kv_cache_utils", "FreeKVCacheBlockQueue", "append", ("block",)),
    ("vllm.v1.core.kv_cache_utils", "FreeKVCacheBlockQueue", "append_n", ("blocks",)),
    ("vllm.v1.core.kv_cache_utils", "FreeKVCacheBlockQueue", "prepend_n", ("blocks",)),
    ("vllm.v1.core.kv_cache_utils", "FreeKVCacheBlockQueue", "get_all_free_blocks", ()),
)


def unsupported(version: str) -> str:
    """Why the inside of this vLLM cannot be followed; empty if it can."""
    return lacking(version, _USED)


def lacking(version: str, used: Iterable[tuple[str, str, str, tuple[str, ...]]]) -> str:
    """Why what is used (module, class, method, parameters) is not to be had of this version; empty if it is."""
    supported = ", ".join(SUPPORTED)
    if ".".join(version.split(".")[:2]) not in SUPPORTED:
        return f"the inside of vLLM {version} is not known here; supported is {supported}"
    missing = [
        f"{owner}.{name}" for module, owner, name, parameters in used if not _has(module, owner, name, parameters)
    ]
    return f"vLLM {version} lacks {', '.join(missing)}; supported is {supported}" if missing else ""


def _has(module: str, owner: str, name: str, parameters: tuple[str, ...]) -> bool:
    try:
        found = getattr(getattr(importlib.import_module(module), owner), name)
    except (ImportError, AttributeError):
        return False
    return set(parameters) <= set(inspect.signature(found).parameters)


class StepTrace:
    """Mixin of vLLM's schedulers: goes before them in the list of bases."""

    _tracer: Tracer

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._tracer = Tracer(self, unknown(self))

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        tracer = self._tracer
        if tracer.problem:
            return super().schedule(*args, **kwargs)  # type: ignore[misc]
        tracer.begin()
        started_unix, begun = time.time(), time.perf_counter()
        output = super().schedule(*args, **kwargs)  # type: ignore[misc]
        tracer.scheduled(output, started_unix, time.perf_counter() - begun)
        return output

    def _update_after_schedule(self, scheduler_output: Any) -> None:
        if not self._tracer.problem:
            self._tracer.plan(scheduler_output)
        super()._update_after_schedule(scheduler_output)  # type: ignore[misc]

    def update_from_output(self, scheduler_output: Any, *args: Any, **kwargs: Any) -> Any:
        tracer, at = self._tracer, time.perf_counter()
        outputs = super().update_from_output(scheduler_output, *args, **kwargs)  # type: ignore[misc]
        if not tracer.problem:
            tracer.updated(scheduler_output, at, outputs)
        if tracer.problem:
            tracer.last_words(outputs)
        return outputs

    def _free_request(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        if not self._tracer.problem:
            self._tracer.finishing(request)
        return super()._free_request(request, *args, **kwargs)  # type: ignore[misc]


def set_trace(core: Any, mode: int, every: int) -> list[Any]:
    """Utility method of the engine core: mode, every, step, dropped, problem."""
    state: list[Any] = core.scheduler._tracer.switch(mode, every)
    return state


def snapshot(core: Any) -> bytes:
    """Utility method of the engine core: ``decode_snapshot`` reads it."""
    data: bytes = core.scheduler._tracer.snapshot()
    return data


def unknown(scheduler: Any) -> str:
    """Why this scheduler cannot be followed; empty if it can."""
    try:
        import vllm

        if problem := unsupported(vllm.__version__):
            return problem
        groups = scheduler.kv_cache_config.kv_cache_groups
        kinds = sorted({type(group.kv_cache_spec).__name__ for group in groups})
    except Exception as error:
        return f"vLLM's scheduler is not as it is known here: {type(error).__name__}: {error}"
    if len(groups) != 1 or kinds[0] not in _FOLLOWED:
        return f"the model's KV cache is made of {', '.join(kinds)}: only block tables of full attention are followed"
    return ""
