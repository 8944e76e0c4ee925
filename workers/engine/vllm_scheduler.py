"""What runs of ours inside the engine core's process.

The core must end when its worker does, however that happens: vLLM's own core lives on for ever when its parent is
killed. And when it dies by itself, the worker wants to know why, which vLLM only prints. Nothing here may raise into
vLLM's loop: an exception there kills the engine for everyone.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import torch
from vllm.distributed.parallel_state import destroy_distributed_environment, destroy_model_parallel
from vllm.platforms import current_platform
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.engine import core as core_module
from vllm.v1.engine.core import EngineCore, EngineCoreProc
from vllm.v1.executor.multiproc_executor import WorkerProc

from workers.engine.core_process import is_resource_tracker
from workers.engine.vllm_env import REASON_FILE, remove_private_folder
from workers.engine.vllm_kv_events import KvEvents
from workers.engine.vllm_trace import StepTrace, set_trace, snapshot

USAGE_METHOD = "inferdeck_usage"
"""The engine core's utility method that answers with ``usage()``."""

TRACE_METHOD = "inferdeck_set_trace"
SNAPSHOT_METHOD = "inferdeck_snapshot"
"""Those that answer with ``vllm_trace.set_trace`` and ``vllm_trace.snapshot``."""

_ORPHANED = 42
_run_core: Callable[..., None] = EngineCoreProc.run_engine_core
_run_rank: Callable[..., None] = WorkerProc.worker_main
_make_rank: Callable[..., None] = WorkerProc.__init__
_report_death: Callable[..., None] = EngineCoreProc._send_engine_dead
_watching = 0


def run_engine_core(*args: Any, **kwargs: Any) -> None:
    """vLLM's entry of the core process, with the worker watched from the first moment and last words kept."""
    # A signal for this process must not be written into the event loop of the one it was forked from.
    signal.set_wakeup_fd(-1)
    die_with_worker()
    install()
    core_module.cleanup_dist_env_and_memory = _leave
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    # torch keeps a rendezvous file while it starts.
    tempfile.tempdir = os.environ.get("VLLM_RPC_BASE_PATH")
    _keep_last_words(_run_core, *args, **kwargs)


def _leave() -> None:
    """In place of vLLM's last cleanup, which also collects garbage: that touches all the memory that this process
    shares with the one it was forked from, and takes seconds just before the kernel takes everything back."""
    destroy_model_parallel()
    destroy_distributed_environment()


def run_rank(*args: Any, **kwargs: Any) -> None:
    """vLLM's entry of a tensor parallel rank. It swallows what went wrong, so last words are kept further inside."""
    install()
    _run_rank(*args, **kwargs)


def install() -> None:
    """Make vLLM start its processes through this module. Call it in the worker before the engine is made."""
    EngineCoreProc.run_engine_core = staticmethod(run_engine_core)
    WorkerProc.worker_main = staticmethod(run_rank)
    WorkerProc.__init__ = _rank_with_last_words
    EngineCoreProc._send_engine_dead = _report_death_with_last_words
    if current_platform.is_cpu():
        from workers.engine import vllm_cpu_runner

        vllm_cpu_runner.repair()


def _rank_with_last_words(*args: Any, **kwargs: Any) -> None:
    _keep_last_words(_make_rank, *args, **kwargs)


def die_with_worker() -> None:
    """End this process, and those it has started, within a moment of its parent's end. Idempotent."""
    global _watching
    parent = os.getppid()
    if _watching == os.getpid():
        return
    _watching = os.getpid()
    threading.Thread(target=_watch, args=(parent,), daemon=True, name="worker-watch").start()


def usage(core: Any) -> dict[str, float]:
    """What the scheduler holds now, also between steps, when vLLM reports nothing."""
    running, waiting = core.scheduler.get_request_counts()
    return {"running": running, "waiting": waiting, "kv_usage": core.scheduler.get_kv_cache_usage()}


setattr(EngineCore, USAGE_METHOD, usage)
setattr(EngineCore, TRACE_METHOD, set_trace)
setattr(EngineCore, SNAPSHOT_METHOD, snapshot)


class _WorkerBound:
    """Scheduler mixin. It is made when the model is loaded: the process is ready, and bound to its worker at last."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        tempfile.tempdir = None
        try:
            die_with_worker()
        except Exception as error:
            print(f"the worker cannot be watched: {error}", flush=True)


class WorkerScheduler(_WorkerBound, KvEvents, StepTrace, Scheduler):  # type: ignore[misc]
    """For the CPU, where vLLM schedules in step with the model."""


class AsyncWorkerScheduler(_WorkerBound, KvEvents, StepTrace, AsyncScheduler):  # type: ignore[misc]
    """For GPUs, where the next step is scheduled while the last one runs."""


def _watch(parent: int) -> None:
    try:
        ended = os.pidfd_open(parent)
    except OSError:
        while os.getppid() == parent:
            time.sleep(0.2)
    else:
        poll = select.poll()
        poll.register(ended, select.POLLIN)
        # A parent that ended before the open has left us to another one, whose number it may be.
        while os.getppid() == parent and not poll.poll(60_000):
            pass
    if folder := os.environ.get("VLLM_RPC_BASE_PATH"):
        remove_private_folder(Path(folder))
    for process in psutil.Process().children(recursive=True):
        if not is_resource_tracker(process):
            process.kill()
    os._exit(_ORPHANED)


def _report_death_with_last_words(core: Any) -> None:
    """vLLM tells the worker that the core is dead before it takes it apart: the reason must be there by then."""
    if (error := sys.exc_info()[1]) is not None:
        _write_last_words(error)
    _report_death(core)


def _keep_last_words(run: Callable[..., None], *args: Any, **kwargs: Any) -> None:
    try:
        run(*args, **kwargs)
    except Exception as error:
        _write_last_words(error)
        raise


def _write_last_words(error: BaseException) -> None:
    if path := os.environ.get(REASON_FILE):
        try:
            with open(path, "a", encoding="utf-8") as file:
                file.write(" ".join(f"{type(error).__name__}: {error}".split()) + "\n")
        except OSError as lost:
            print(f"the reason of the engine's end cannot be kept: {lost}", flush=True)
