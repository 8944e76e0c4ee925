"""The scripted engine: exact tokens, bytes, delays and deaths. A test engine, and says so in its name.

It keeps a real engine's manners: steps that all running requests share, KV blocks with a prefix cache, a waiting
queue by priority, preemption when blocks run out, and one sink call per step. What a request gets is written in the
request itself (see ``script``); without a script it is common words, the same for the same prompt and seed.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

from control_plane.contracts.errors import DropReason, InvalidRequest, WorkerLost, from_reason
from control_plane.contracts.worker import CallError, Delta, Done, Finish, FinishReason, Generate, ModelInfo, Stages
from control_plane.contracts.worker_spec import WorkerSpec
from workers.engine.base import EngineDead, EngineLoad, Sink, TokenizerFile
from workers.engine.modelless.answer import Answers
from workers.engine.modelless.choice import asked, output_room
from workers.engine.modelless.nap import Nap
from workers.engine.modelless.script import find_script
from workers.engine.modelless.text import TextStream, unfinished_character
from workers.engine.modelless.tokenizer import ByteTokenizer, builtin_files, folder_files
from workers.engine.scripted.blocks import BlockPool
from workers.engine.scripted.choice import Call, Choice
from workers.engine.scripted.schedule import Schedule
from workers.engine.scripted.settings import ScriptedSettings

_SCRIPT_MARK = b'"script"'
# What was sent before a scripted death has left the process by then.
_FLUSH_S = 0.1


class ScriptedEngine:
    """See ``Engine`` and ``Sleeps``."""

    name = "scripted"
    version = "1"
    device = "cpu"

    def __init__(self, spec: WorkerSpec) -> None:
        arguments = {"max_context": spec.max_context, **spec.engine_args} if spec.max_context else spec.engine_args
        self._spec = spec
        self._settings = ScriptedSettings.read(arguments)
        folder = self._settings.tokenizer_dir or (spec.source if Path(spec.source, "tokenizer.json").is_file() else "")
        self._files = folder_files(Path(folder)) if folder else builtin_files()
        self._tokenizer = ByteTokenizer(self._files)
        self._answers = Answers(self._tokenizer, self._settings.tokens)
        self._pool = BlockPool(self._settings.total_blocks, self._settings.block_size)
        self._calls: dict[int, Call] = {}
        self._schedule = Schedule(self._settings, self._pool)
        self._nap = Nap(self._settings.sleep_s, self._settings.wake_s)
        self._arrivals = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._trace = open(self._settings.trace_path, "a", buffering=1) if self._settings.trace_path else None  # noqa: SIM115
        self._loop: asyncio.AbstractEventLoop
        self._death: asyncio.Future[str]
        self._dying = False

    async def start(self) -> ModelInfo:
        self._loop = asyncio.get_running_loop()
        self._death = self._loop.create_future()
        settings = self._settings
        await asyncio.sleep(settings.start_s)
        if settings.fail_start:
            raise EngineDead(settings.fail_start)
        return ModelInfo(
            name=self._spec.model,
            source=self._spec.source,
            dtype=self._spec.dtype,
            max_context=settings.max_context,
            vocab_size=self._tokenizer.vocab_size,
            block_size=settings.block_size,
            total_blocks=settings.total_blocks,
            tensor_parallel=self._spec.tensor_parallel,
            max_num_seqs=settings.max_num_seqs,
            max_num_batched_tokens=settings.max_num_batched_tokens,
        )

    def submit(self, call: Generate, sink: Sink) -> None:
        if self._dying:
            raise from_reason(DropReason.ENGINE_DEAD, "the engine is dead")
        self._nap.refuse()
        limit = output_room(call, self._settings.max_context, self._tokenizer.vocab_size)
        prompt, origin = list(call.prompt_token_ids), asked(call)
        data = self._tokenizer.decode(origin.prompt_token_ids)
        script = find_script(data.decode(errors="replace") if _SCRIPT_MARK in data else "")
        if script.refuse:
            raise from_reason(script.refuse, "refused by the script", param="script")
        if script.inject is not None:
            raise InvalidRequest("the scripted engine injects no failures; the simulator does", param="script")
        entry = Call(call, script, sink, time.time(), time.monotonic())
        keys = self._pool.keys(prompt, call.cache_salt)
        for index in range(call.sampling.n):
            self._arrivals += 1
            choice = Choice(
                generate=call,
                script=script,
                index=index,
                steps=self._answers.steps(origin, script, index),
                text=TextStream(call.sampling.stop, unfinished_character(data[-4:])),
                tokenizer=self._tokenizer,
                limit=limit,
                tokens=list(origin.prompt_token_ids),
                call=entry,
                order=(call.priority, self._arrivals),
                keys=list(keys),
            )
            choice.resume()
            entry.choices.append(choice)
            self._schedule.add(choice)
        self._calls[call.call] = entry
        self._note("submit", entry)
        self._admit()

    def abort(self, call: int) -> None:
        entry = self._calls.get(call)
        if entry is None:
            return
        deltas = []
        for choice in entry.choices:
            if not choice.ended:
                self._schedule.end(choice)
                finish = Finish(FinishReason.ABORT, choice.count)
                deltas.append(Delta(call, choice=choice.index, finish=finish))
        self._note("abort", entry)
        self._close(entry, deltas[-1])
        entry.sink(deltas)
        self._admit()

    def load(self) -> EngineLoad:
        schedule, totals = self._schedule, self._schedule.totals
        return EngineLoad(
            running=len(schedule.running),
            waiting=schedule.waiting,
            total_blocks=self._pool.total,
            used_blocks=self._pool.used,
            generated_tokens=totals.generated,
            prompt_tokens=totals.prompt,
            cached_tokens=totals.cached,
            preemptions=totals.preemptions,
            steps=totals.steps,
        )

    def pids(self) -> tuple[int, ...]:
        return ()

    async def dead(self) -> str:
        return await asyncio.shield(self._death)

    def no_sleep(self) -> str:
        return self._nap.problem

    async def sleep(self, level: int) -> None:
        if self._dying:
            raise WorkerLost("the engine is dead")
        self._nap.begin(level, len(self._calls))
        self._pool.forget_all()
        await self._nap.fall()

    async def wake(self) -> None:
        await self._nap.wake()

    def tokenizer_files(self) -> Sequence[TokenizerFile]:
        return self._files

    async def stop(self) -> None:
        self._dying = True
        if self._timer is not None:
            self._timer.cancel()
        for call in list(self._calls):
            self.abort(call)
        if self._trace is not None:
            self._trace.close()
            self._trace = None

    def _admit(self) -> None:
        """Let the waiting in where there is room, and wake up when the next token is due."""
        if self._dying:
            return
        self._schedule.admit(time.monotonic())
        due = self._schedule.next_due()
        if due is None or (self._timer is not None and self._timer_at <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = due
        # Not call_at: the loop's clock may be another one, and is read once per round only.
        self._timer = self._loop.call_later(max(due - time.monotonic(), 0.0), self._step)

    def _step(self) -> None:
        """One engine step: everything that is due by now."""
        self._timer = None
        now = time.monotonic()
        due = self._schedule.due(now)
        out: dict[Sink, list[Delta]] = {}
        for choice in due:
            if not choice.running or (choice.deadly and self._dies(choice)):
                continue
            delta = self._advance(choice, now)
            if delta is not None:
                out.setdefault(choice.call.sink, []).append(delta)
        if due:
            self._schedule.totals.steps += 1
        for sink, deltas in out.items():
            sink(deltas)
        self._admit()

    def _advance(self, choice: Choice, now: float) -> Delta | None:
        call = choice.call
        before = choice.count
        delta = choice.advance()
        self._schedule.totals.generated += choice.count - before
        if not call.first_mono:
            call.first_mono = now
            self._note("first", call)
        if delta.finish is None:
            self._schedule.again(choice, now)
            return delta if call.generate.stream else None
        self._schedule.end(choice)
        if not call.open:
            self._close(call, delta)
            self._note("end", call)
        return delta

    def _close(self, call: Call, last: Delta) -> None:
        """The call is over: put its totals, or its scripted error, on its last delta."""
        del self._calls[call.generate.call]
        aborted = last.finish is not None and last.finish.reason is FinishReason.ABORT
        if call.script.finish == "error" and not aborted:
            last.finish = None
            last.error = CallError(DropReason.INTERNAL_ERROR, "failed by the script")
            return
        now = time.monotonic()
        stages = Stages(
            received_unix=call.received_unix,
            queued_s=(call.scheduled_mono or now) - call.received_mono,
            prefill_s=call.first_mono - call.scheduled_mono if call.first_mono else 0.0,
            decode_s=now - call.first_mono if call.first_mono else 0.0,
            preemptions=call.preemptions,
        )
        prompt = len(call.generate.prompt_token_ids) - call.generate.resumed
        last.done = Done(prompt, min(call.cached_tokens, prompt), call.output_tokens, stages)

    def _dies(self, choice: Choice) -> bool:
        script = choice.call.script
        if script.die_after is not None and choice.count >= script.die_after:
            self._loop.call_later(_FLUSH_S, self._die, self._settings.exit_process)
        elif script.engine_dies_after is not None and choice.count >= script.engine_dies_after:
            self._loop.call_later(_FLUSH_S, self._die, False)
        else:
            return False
        self._dying = True
        if self._timer is not None:
            self._timer.cancel()
        return True

    def _die(self, process: bool) -> None:
        if process:
            os._exit(1)
        cause = "died by its script"
        for number, call in list(self._calls.items()):
            for choice in call.choices:
                if not choice.ended:
                    self._schedule.end(choice)
            del self._calls[number]
            call.sink([Delta(number, error=CallError(DropReason.ENGINE_DEAD, cause))])
        if not self._death.done():
            self._death.set_result(cause)

    def _note(self, event: str, call: Call) -> None:
        if self._trace is not None:
            line = {
                "event": event,
                "request_id": call.generate.request_id,
                "mark": call.script.mark,
                "mono": time.monotonic(),
                "output_tokens": call.output_tokens,
            }
            self._trace.write(json.dumps(line) + "\n")
