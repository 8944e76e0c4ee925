"""From a step of vLLM's engine core to one sink call.

vLLM's ``AsyncLLM.generate`` costs a task, a queue and four objects per request and step. What is needed of it is less:
``StepOutputs`` stands in for its output processor and makes our deltas straight from what the core sent, with vLLM's
own detokeniser and stop strings. Requests that were not made here (the published service) take vLLM's own way.

These are private interfaces of vLLM; ``unsupported`` names the versions they were written against.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

import vllm
from vllm.v1.engine import EngineCoreEventType, EngineCoreOutput, EngineCoreRequest, FinishReason
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.core_client import AsyncMPClient
from vllm.v1.engine.detokenizer import FastIncrementalDetokenizer
from vllm.v1.engine.output_processor import OutputProcessor, OutputProcessorOutput, RequestState

from control_plane.contracts import worker as wire
from control_plane.contracts.errors import Conflict, DropReason
from workers.engine.base import Sink
from workers.engine.choice_id import internal_id
from workers.engine.token_bytes import TokenBytes, unfinished_bytes
from workers.engine.vllm_errors import failure_in_core
from workers.engine.vllm_request import is_structured
from workers.engine.vllm_stats import Counters

SUPPORTED = ("0.32",)
"""Versions of vLLM that the tests run against."""

_CONTEXT = 8  # tokens of the prompt that the decode stream is given: enough for any character or space

_log = logging.getLogger(__name__)
_FINISH = {
    FinishReason.STOP: wire.FinishReason.STOP,
    FinishReason.LENGTH: wire.FinishReason.LENGTH,
    FinishReason.ABORT: wire.FinishReason.ABORT,
    FinishReason.REPETITION: wire.FinishReason.STOP,
}
_USED: tuple[tuple[Any, str, tuple[str, ...]], ...] = (
    (OutputProcessor, "process_outputs", ("engine_core_outputs", "engine_core_timestamp", "iteration_stats")),
    (OutputProcessor, "add_request", ("request", "prompt", "parent_req", "request_index", "queue")),
    (OutputProcessor, "abort_requests", ("request_ids", "internal")),
    (OutputProcessor, "propagate_error", ("e",)),
    (OutputProcessor, "_finish_request", ("req_state",)),
    (OutputProcessor, "_trim_surplus_tokens", ("req_state", "output", "num_prev_tokens")),
    (FastIncrementalDetokenizer, "update", ("new_token_ids", "stop_terminated")),
    (FastIncrementalDetokenizer, "get_next_output_text", ("finished", "delta")),
    (AsyncLLM, "_run_output_handler", ()),
    (AsyncMPClient, "add_request_async", ("request",)),
    (AsyncMPClient, "abort_requests_async", ("request_ids",)),
    (AsyncMPClient, "call_utility_async", ("method",)),
)


def unsupported() -> str:
    """Why this vLLM cannot be driven from here; empty if it can."""
    missing = [
        f"{owner.__name__}.{name}"
        for owner, name, parameters in _USED
        if not callable(found := getattr(owner, name, None))
        or not set(parameters) <= set(inspect.signature(found).parameters)
    ]
    if not missing:
        return ""
    return f"vLLM {vllm.__version__} lacks {', '.join(missing)}; supported is {', '.join(SUPPORTED)}"


class Call:
    """A call that was submitted, and what its choices have used so far. ``*_ts`` are the core's monotonic clock."""

    __slots__ = (
        "cached_tokens",
        "choices",
        "first_ts",
        "generate",
        "last_ts",
        "open",
        "output_tokens",
        "over",
        "preemptions",
        "queued_ts",
        "received_unix",
        "scheduled_ts",
        "sink",
    )

    def __init__(self, generate: wire.Generate, sink: Sink) -> None:
        self.generate = generate
        self.sink = sink
        self.received_unix = time.time()
        self.choices = [
            Choice(self, index, internal_id(generate.request_id, generate.call, index))
            for index in range(generate.sampling.n)
        ]
        self.open = len(self.choices)
        self.over = False
        self.output_tokens = generate.resumed
        self.cached_tokens = 0
        self.preemptions = 0
        self.queued_ts = 0.0
        self.scheduled_ts = 0.0
        self.first_ts = 0.0
        self.last_ts = 0.0

    def done(self) -> wire.Done:
        stages = wire.Stages(
            received_unix=self.received_unix,
            queued_s=max(self.scheduled_ts - self.queued_ts, 0.0),
            prefill_s=max(self.first_ts - self.scheduled_ts, 0.0),
            decode_s=max(self.last_ts - self.first_ts, 0.0),
            preemptions=self.preemptions,
        )
        prompt = len(self.generate.prompt_token_ids) - self.generate.resumed
        return wire.Done(prompt, min(self.cached_tokens, prompt), self.output_tokens, stages)

    def aborted(self) -> list[wire.Delta]:
        """The last deltas of a call that was ended early."""
        number = self.generate.call
        deltas = [
            wire.Delta(number, choice=choice.index, finish=wire.Finish(wire.FinishReason.ABORT, choice.count))
            for choice in self.choices
            if not choice.ended
        ]
        deltas[-1].done = self.done()
        return deltas


class Choice:
    """One choice of a call: what vLLM calls a request. It sits where vLLM has the request's output queue."""

    __slots__ = ("call", "count", "ended", "index", "logprobs", "request_id", "started")

    def __init__(self, call: Call, index: int, request_id: str) -> None:
        self.call = call
        self.index = index
        self.request_id = request_id
        self.count = call.generate.resumed
        self.started = False
        self.ended = False
        self.logprobs: list[wire.TokenLogprob] = []

    def put(self, output: object) -> None:
        """vLLM's own words about an abort are not needed: ours say the same."""


class StepOutputs(OutputProcessor):  # type: ignore[misc]
    """vLLM's output processor, with a short way for our own calls.

    ``ended`` is told each call that is over, ``aborting`` that the core is about to be told to abort something, and
    ``failed`` that vLLM's output loop is over.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        stream_interval: int,
        counters: Counters,
        token_bytes: TokenBytes,
        ended: Callable[[Call], None],
        aborting: Callable[[], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        super().__init__(tokenizer, log_stats=True, stream_interval=stream_interval)
        self._counters = counters
        self._token_bytes = token_bytes
        self._ended = ended
        self._aborting = aborting
        self._failed = failed

    def add_choice(self, request: EngineCoreRequest, choice: Choice) -> None:
        self.add_request(request, None, None, 0, choice)
        self._prime(self.request_states[request.request_id], choice.call.generate)

    def drop(self, call: Call) -> list[str]:
        """Forget what is left of a call; returns the ids that the core has to abort."""
        ids: list[str] = self.abort_requests(
            [choice.request_id for choice in call.choices if not choice.ended], internal=True
        )
        return ids

    def propagate_error(self, e: Exception) -> None:
        self._failed(e)
        super().propagate_error(e)

    def process_outputs(
        self,
        engine_core_outputs: list[EngineCoreOutput],
        engine_core_timestamp: float | None = None,
        iteration_stats: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> OutputProcessorOutput:
        states, now = self.request_states, engine_core_timestamp or 0.0
        by_sink: dict[Sink, list[wire.Delta]] = {}
        foreign: list[EngineCoreOutput] = []
        to_abort: list[str] = []
        for output in engine_core_outputs:
            state = states.get(output.request_id)
            if state is None:
                continue
            choice = state.queue
            if choice.__class__ is not Choice:
                foreign.append(output)
                continue
            try:
                delta = self._advance(state, choice, output, now)
            except Exception as error:
                _log.exception("what a step said of a request was lost")
                message = f"the output could not be read: {type(error).__name__}"
                delta = self._fail(choice, wire.CallError(DropReason.INTERNAL_ERROR, message))
            if choice.ended:
                self._finish_request(state)
                if output.finish_reason is None:
                    to_abort.append(output.request_id)
                if choice.call.over:
                    to_abort += self.drop(choice.call)
            if delta is not None:
                sink = choice.call.sink
                deltas = by_sink.get(sink)
                if deltas is None:
                    by_sink[sink] = [delta]
                else:
                    deltas.append(delta)
        for sink, deltas in by_sink.items():
            deliver(sink, deltas)
        if to_abort:
            self._aborting()
        if not foreign:
            return OutputProcessorOutput(request_outputs=[], reqs_to_abort=to_abort)
        result = super().process_outputs(foreign, engine_core_timestamp, iteration_stats, *args, **kwargs)
        result.reqs_to_abort.extend(to_abort)
        return result

    def _advance(self, state: RequestState, choice: Choice, output: EngineCoreOutput, now: float) -> wire.Delta | None:
        """What the step added to the choice; None where nothing is to be said yet."""
        call = choice.call
        if output.events is not None:
            self._note_events(call, output.events)
        if not choice.started:
            choice.started = True
            state.is_prefilling = False
            if output.prefill_stats is not None:
                self._note_prefill(call, choice, output.prefill_stats)
        detokenizer, reason, stop_text = state.detokenizer, output.finish_reason, ""
        stopped = detokenizer.update(output.new_token_ids, reason == FinishReason.STOP)
        if stopped:
            reason, stop_text = FinishReason.STOP, stopped
            self._trim_surplus_tokens(state, output, choice.count)
        token_ids = output.new_token_ids
        new = len(token_ids)
        choice.count += new
        call.output_tokens += new
        self._counters.generated_tokens += new
        if new:
            call.first_ts = call.first_ts or now
            call.last_ts = now
        generate = call.generate
        if output.new_logprobs is not None:
            choice.logprobs += self._logprobs(output.new_logprobs, generate.sampling.logprobs or 0)
        if reason is None:
            if not generate.stream or not new:
                return None
            delta = wire.Delta(generate.call, token_ids, detokenizer.get_next_output_text(False, True), choice.index)
        elif reason == FinishReason.ERROR:
            return self._fail(choice, failure_in_core(structured=is_structured(generate.sampling)))
        else:
            if not generate.stream:
                token_ids = detokenizer.output_token_ids
            delta = wire.Delta(generate.call, token_ids, detokenizer.get_next_output_text(True, True), choice.index)
            self._finish(delta, choice, reason, stop_text, output.stop_reason)
        if choice.logprobs:
            delta.logprobs = tuple(choice.logprobs)
            choice.logprobs.clear()
        return delta

    def _finish(
        self, delta: wire.Delta, choice: Choice, reason: FinishReason, stop_text: str, stop_reason: object
    ) -> None:
        call = choice.call
        stop_token = stop_reason if isinstance(stop_reason, int) and not stop_text else None
        delta.finish = wire.Finish(_FINISH[reason], choice.count, stop_text, stop_token)
        choice.ended = True
        call.open -= 1
        if not call.open:
            delta.done = call.done()
            call.over = True
            self._ended(call)

    def _fail(self, choice: Choice, error: wire.CallError) -> wire.Delta | None:
        call = choice.call
        choice.ended = True
        if call.over:
            return None
        call.over = True
        self._ended(call)
        return wire.Delta(call.generate.call, choice=choice.index, error=error)

    def _note_events(self, call: Call, events: Sequence[Any]) -> None:
        for event in events:
            if event.type == EngineCoreEventType.QUEUED:
                call.queued_ts = call.queued_ts or event.timestamp
            elif event.type == EngineCoreEventType.SCHEDULED:
                call.scheduled_ts = call.scheduled_ts or event.timestamp
            elif event.type == EngineCoreEventType.PREEMPTED:
                call.preemptions += 1
                self._counters.preemptions += 1

    def _note_prefill(self, call: Call, choice: Choice, stats: Any) -> None:
        self._counters.prompt_tokens += stats.num_prompt_tokens
        self._counters.cached_tokens += stats.num_cached_tokens
        if not choice.index:
            call.cached_tokens = stats.num_cached_tokens

    def _logprobs(self, rows: Any, alternatives: int) -> list[wire.TokenLogprob]:
        """One entry per token. A row of vLLM's holds the chosen token first, then the most likely ones in order."""
        text = self._token_bytes
        entries = []
        for ids, values, rank in zip(
            rows.logprob_token_ids.tolist(), rows.logprobs.tolist(), rows.sampled_token_ranks.tolist(), strict=True
        ):
            likely = zip(ids[1 : alternatives + 1], values[1 : alternatives + 1], strict=True)
            top = tuple(
                wire.TokenLogprob(token, text[token], value, place) for place, (token, value) in enumerate(likely, 1)
            )
            entries.append(wire.TokenLogprob(ids[0], text[ids[0]], values[0], rank, top))
        return entries

    def _prime(self, state: RequestState, generate: wire.Generate) -> None:
        """Give the decode stream the end of the prompt, and no more than it can take; then what was said already.

        It takes all text up to the first complete character as new. So after a prompt that ends inside a character
        it would repeat the prompt; it gets the complete part as prompt and the rest as if it had been generated.
        """
        detokenizer = state.detokenizer
        if not isinstance(detokenizer, FastIncrementalDetokenizer):
            if generate.resumed:
                raise Conflict("this model's tokenizer cannot take up an answer")
            return
        asked = len(generate.prompt_token_ids) - generate.resumed
        prompt = state.prompt_token_ids[max(asked - 2 * _CONTEXT, 0) : asked]
        tokenizer = detokenizer.tokenizer
        end = len(prompt)
        while end and tokenizer.decode(prompt[max(end - _CONTEXT, 0) : end]).endswith("�"):
            end -= 1
        stream = detokenizer.stream = type(detokenizer.stream)(
            ids=prompt[max(end - _CONTEXT, 0) : end], skip_special_tokens=detokenizer.skip_special_tokens
        )
        tail = prompt[end:]
        unfinished = unfinished_bytes(b"".join(self._token_bytes[token] for token in tail))
        size, start = 0, len(tail)
        while size < unfinished:
            start -= 1
            size += len(self._token_bytes[tail[start]])
        for token in tail[start:]:
            stream.step(tokenizer, token)
        if generate.resumed:
            detokenizer.min_tokens = generate.sampling.min_tokens
            detokenizer.update(list(generate.prompt_token_ids[asked:]), False)
            detokenizer.get_next_output_text(False, True)  # it has been delivered


def deliver(sink: Sink, deltas: list[wire.Delta]) -> None:
    try:
        sink(deltas)
    except Exception:
        _log.exception("the deltas of a step were lost")
