"""The calls that an engine has taken: into vLLM, out of it early, and to a sure end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from control_plane.contracts.errors import DropReason, InferDeckError, WorkerLost
from control_plane.contracts.worker import CallError, Delta, Generate
from workers.engine.base import Sink
from workers.engine.token_bytes import TokenBytes
from workers.engine.vllm_errors import refusal
from workers.engine.vllm_outputs import Call, StepOutputs, deliver
from workers.engine.vllm_request import check_backend, engine_input, is_structured, sampling_params
from workers.engine.vllm_scheduler import USAGE_METHOD
from workers.engine.vllm_stats import Counters


class Calls:
    """Made in the event loop that the engine serves; takes the place of vLLM's output processor.

    ``lost`` is told, once, when vLLM's output loop has ended: nothing more will come.
    """

    def __init__(
        self, llm: Any, counters: Counters, token_bytes: TokenBytes, lost: Callable[[BaseException], None]
    ) -> None:
        self._llm = llm
        self._counters = counters
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._by_number: dict[int, Call] = {}
        self._work: set[asyncio.Task[None]] = set()
        self._can: tuple[str, ...] = ()
        self._defaults: dict[str, Any] = llm.model_config.get_diff_sampling_param()
        self._refreshing = self._refresh_again = self._closed = False
        self._outputs = llm.output_processor = StepOutputs(
            llm.tokenizer,
            stream_interval=llm.vllm_config.scheduler_config.stream_interval,
            counters=counters,
            token_bytes=token_bytes,
            ended=self._forget,
            aborting=self._refresh_after_abort,
            failed=self._end,
        )
        # It keeps the output processor that it finds when it starts.
        llm._run_output_handler()

    async def open(self) -> None:
        """Wait until the core answers."""
        self._can = tuple(await self._llm.get_supported_tasks())

    @property
    def unfinished(self) -> int:
        """Sequences that have not ended, whichever way they came."""
        return len(self._outputs.request_states)

    def submit(self, generate: Generate, sink: Sink) -> None:
        """Raises InvalidRequest, Unavailable, or WorkerLost after the end."""
        if self._closed:
            raise WorkerLost("the engine is dead", reason=DropReason.ENGINE_DEAD)
        call = Call(generate, sink)
        if is_structured(generate.sampling):
            self._by_number[generate.call] = call
            self._spawn(self._submit_structured(call))
            return
        requests = self._requests(call)
        self._by_number[generate.call] = call
        self._add(call, requests)

    def abort(self, number: int) -> None:
        call = self._by_number.pop(number, None)
        if call is None:
            return
        call.over = True
        if ids := self._outputs.drop(call):
            self._spawn(self._abort_in_core(ids))
        deliver(call.sink, call.aborted())

    def abort_all(self) -> None:
        for number in list(self._by_number):
            self.abort(number)

    def fail_all(self, cause: str) -> None:
        """The engine is dead: every call ends with ``engine_dead``, and no other is taken."""
        self._closed = True
        error = WorkerLost(f"the engine died: {cause}" if cause else "the engine died", reason=DropReason.ENGINE_DEAD)
        for call in list(self._by_number.values()):
            self._fail(call, error)

    def close(self) -> None:
        """Before the core is stopped: what waits for its output would take its end for a failure."""
        self._closed = True
        if (handler := self._llm.output_handler) is not None:
            handler.cancel()
        for task in list(self._work):
            task.cancel()

    def _requests(self, call: Call) -> list[Any]:
        """One vLLM request per choice, checked."""
        processor, generate, sampling = self._llm.input_processor, call.generate, call.generate.sampling
        requests = []
        try:
            self._llm.check_admission(sampling.n)
            for choice in call.choices:
                request = processor.process_inputs(
                    choice.request_id,
                    engine_input(generate),
                    sampling_params(sampling, self._defaults, choice.index, generate.resumed),
                    self._can,
                    arrival_time=generate.arrival_unix or None,
                    priority=generate.priority,
                )
                check_backend(request.sampling_params)
                request.external_req_id = choice.request_id
                requests.append(request)
        except Exception as error:
            if refused := refusal(error, structured=is_structured(sampling)):
                raise refused from error
            raise
        return requests

    def _add(self, call: Call, requests: list[Any]) -> None:
        try:
            for request, choice in zip(requests, call.choices, strict=True):
                self._outputs.add_choice(request, choice)
        except Exception as error:
            self._fail(call, error)
            return
        self._spawn(self._add_to_core(call, requests))

    async def _submit_structured(self, call: Call) -> None:
        """Compiling a grammar takes up to a second, the first time more: not on the event loop."""
        try:
            requests = await asyncio.to_thread(self._requests, call)
        except Exception as error:
            self._fail(call, error)
        else:
            if not call.over:
                self._add(call, requests)

    async def _add_to_core(self, call: Call, requests: list[Any]) -> None:
        try:
            for request in requests:
                await self._llm.engine_core.add_request_async(request)
        except Exception as error:
            self._fail(call, error)

    async def _abort_in_core(self, ids: list[str]) -> None:
        await self._llm.engine_core.abort_requests_async(ids)
        self._refresh_soon()

    def _refresh_after_abort(self) -> None:
        # vLLM's output loop tells the core as soon as it is back, before the event loop turns.
        self._loop.call_soon(self._refresh_soon)

    def _refresh_soon(self) -> None:
        """Ask the core what it holds: after an abort it may have no step to report by."""
        self._refresh_again = True
        if not self._refreshing and not self._closed:
            self._refreshing = True
            self._spawn(self._refresh())

    async def _refresh(self) -> None:
        try:
            while self._refresh_again:
                self._refresh_again = False
                usage = await self._llm.engine_core.call_utility_async(USAGE_METHOD)
                self._counters.running = usage["running"]
                self._counters.kv_usage = usage["kv_usage"]
        finally:
            self._refreshing = False

    def _forget(self, call: Call) -> None:
        self._by_number.pop(call.generate.call, None)

    def _fail(self, call: Call, error: Exception) -> None:
        if call.over:
            return
        call.over = True
        self._forget(call)
        if (ids := self._outputs.drop(call)) and not self._closed:
            self._spawn(self._abort_in_core(ids))
        if isinstance(error, InferDeckError):
            said = CallError(error.reason, error.message, error.param or "")
        elif self._llm.errored:
            said = CallError(DropReason.ENGINE_DEAD, "the engine died")
        else:
            said = CallError(DropReason.INTERNAL_ERROR, f"the engine could not take the call: {type(error).__name__}")
        deliver(call.sink, [Delta(call.generate.call, error=said)])

    def _end(self, error: BaseException) -> None:
        if not self._closed:
            self.fail_all("")
            self._lost(error)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._work.discard(task)
        if not task.cancelled() and not self._llm.errored and (error := task.exception()) is not None:
            self._loop.call_exception_handler({"message": "work for a call failed", "exception": error, "task": task})
