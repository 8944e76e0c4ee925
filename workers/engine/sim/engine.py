"""The simulator as an engine: vLLM's scheduler without a model, in wall-clock time.

Each step is scheduled as vLLM would (``scheduler``), lasts as long as the profile says (``step_time``), and then gives
its tokens. Steps follow one another on a clock of their own: a timer that fires late delays tokens, never the steps
after them. What a request says is invented, or, where the settings allow scripts, what its script says
(``modelless.script``); in a batch everyone waits for the slowest, so a scripted delay is that of the whole step.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from control_plane.contracts.errors import DropReason, WorkerLost, from_reason
from control_plane.contracts.failure import DEADLY, Failure, FailureKind, read_failure
from control_plane.contracts.kv_events import KvBatch, KvSnapshot
from control_plane.contracts.step import BlockSnapshot, EngineStep, StepFinished, TraceMode, TraceState
from control_plane.contracts.worker import CallError, Delta, FinishReason, Generate, ModelInfo
from control_plane.contracts.worker_spec import WorkerSpec
from workers.engine.base import EngineLoad, Sink, TokenizerFile, no_events
from workers.engine.kv_journal import KvJournal
from workers.engine.modelless.choice import asked, output_room
from workers.engine.modelless.script import find_script
from workers.engine.modelless.text import TextStream, unfinished_character
from workers.engine.modelless.tokenizer import ByteTokenizer, builtin_files, folder_files
from workers.engine.sim.answers import SimAnswers
from workers.engine.sim.calls import SimCall, SimChoice
from workers.engine.sim.failures import Failures
from workers.engine.sim.gauge import Gauge
from workers.engine.sim.names import Names
from workers.engine.sim.profile import profile_of
from workers.engine.sim.request import SimRequest
from workers.engine.sim.scheduled import Scheduled
from workers.engine.sim.scheduler import SimScheduler
from workers.engine.sim.settings import SimSettings
from workers.engine.sim.setup import model_info, nap_of, scheduler_config
from workers.engine.sim.telling import Telling
from workers.engine.sim.totals import Totals

_SCRIPT_MARK = b'"script"'
_FLUSH_S = 0.1
"""What was sent before a death has left the process by then."""

_CATCH_UP_S = 0.1
"""A clock further behind than this is put right: the machine is too slow, and says so in its steps."""

_STALL_LOOK_S = 0.02
_SNAPSHOT_WAIT_S = 1.0


class SimEngine:
    """See ``Engine``, ``TracesSteps``, ``TellsKvEvents``, ``Sleeps`` and ``Fails``."""

    name = "sim"
    version = "1"

    def __init__(self, spec: WorkerSpec) -> None:
        self._spec = spec
        self._settings = settings = SimSettings.read(spec.engine_args)
        self._planned = settings.planned()
        self.profile = profile_of(settings, spec.tensor_parallel)
        self.config = scheduler_config(settings, self.profile, spec.max_context, spec.kv_bytes)
        self.device = f"sim:{self.profile.device}"
        self.on_steps: Callable[[Sequence[EngineStep]], None] = _unseen
        self.on_kv_events: Callable[[Sequence[KvBatch]], None] = _unseen
        folder = settings.tokenizer_dir or (spec.source if Path(spec.source, "tokenizer.json").is_file() else "")
        self._files = folder_files(Path(folder)) if folder else builtin_files()
        self._tokenizer = ByteTokenizer(self._files)
        self._answers = SimAnswers(self._tokenizer, settings.output_tokens)
        self._journal = KvJournal() if spec.kv_events and self.config.enable_prefix_caching else None
        self._scheduler = SimScheduler(self.config, self._journal)
        self._telling = Telling()
        self._totals = Totals()
        self._failures = Failures()
        self._gauge = Gauge(self._scheduler, self._totals, self._failures)
        self._calls: dict[int, SimCall] = {}
        self._choices: dict[str, SimChoice] = {}
        self._names = Names(self._choices, self._telling.recent)
        self._nap = nap_of(self.profile, settings.speed)
        self._scripted = 0
        self._timer: asyncio.TimerHandle | asyncio.Handle | None = None
        self._flying: deque[Scheduled] = deque()
        self._asked: asyncio.Future[BlockSnapshot] | None = None
        self._due = 0.0
        self._dying = False
        self._loop: asyncio.AbstractEventLoop
        self._death: asyncio.Future[str]

    async def start(self) -> ModelInfo:
        self._loop = asyncio.get_running_loop()
        self._death = self._loop.create_future()
        for failure in self._planned:
            self.inject(failure)
        return model_info(self._spec.model, self.profile, self.config, self._tokenizer.vocab_size)

    def submit(self, call: Generate, sink: Sink) -> None:
        if self._dying:
            raise from_reason(DropReason.ENGINE_DEAD, "the engine is dead")
        self._nap.refuse()
        limit = output_room(call, self.config.max_model_len, self._tokenizer.vocab_size)
        prompt, origin = list(call.prompt_token_ids), asked(call)
        data = self._tokenizer.decode(origin.prompt_token_ids)
        told = self._settings.scripts and _SCRIPT_MARK in data
        script = find_script(data.decode(errors="replace") if told else "")
        if script.refuse:
            raise from_reason(script.refuse, "refused by the script", param="script")
        if script.inject == "clear":
            self.heal()
        elif script.inject is not None:
            self.inject(read_failure(script.inject))
        now, tail = time.monotonic(), unfinished_character(data[-4:])
        entry = SimCall(call, script, sink, time.time(), now)
        for index in range(call.sampling.n):
            choice = SimChoice(
                generate=call,
                script=script,
                index=index,
                steps=self._answers.steps(origin, script, index),
                text=TextStream(call.sampling.stop, tail),
                tokenizer=self._tokenizer,
                limit=limit,
                tokens=[],
                call=entry,
                name=self._names.new(call, index),
            )
            choice.resume()
            left = limit - call.resumed
            self._scheduler.add(SimRequest(choice.name, prompt, left, call.priority, now, call.cache_salt))
            entry.choices.append(choice)
            self._choices[choice.name] = choice
            self._scripted += script.timed
        entry.open = call.sampling.n
        self._calls[call.call] = entry
        self._wake()

    def abort(self, call: int) -> None:
        entry = self._calls.pop(call, None)
        if entry is None:
            return
        for choice in entry.choices:
            if not choice.ended:
                self._scheduler.abort(choice.name)
                self._forget(choice)
        entry.sink(entry.abort(time.monotonic()))
        if not self._dying:
            self._wake()

    def load(self) -> EngineLoad:
        return self._gauge.read(time.monotonic())

    def pids(self) -> tuple[int, ...]:
        return ()

    async def dead(self) -> str:
        return await asyncio.shield(self._death)

    def tokenizer_files(self) -> Sequence[TokenizerFile]:
        return self._files

    async def stop(self) -> None:
        self._halt()
        for call in list(self._calls):
            self.abort(call)

    def trace(self) -> TraceState:
        return self._telling.state

    async def set_trace(self, mode: TraceMode, every: int) -> TraceState:
        if self._dying:
            raise WorkerLost("the engine does not run")
        self._telling.switch(mode, every)
        return self._telling.state

    async def blocks(self) -> BlockSnapshot:
        """After a step that runs has ended, unless it takes its time."""
        if self._dying:
            raise WorkerLost("the engine does not run")
        if self._flying:
            self._asked = self._asked or self._loop.create_future()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_SNAPSHOT_WAIT_S):
                    return await asyncio.shield(self._asked)
        return self._scheduler.snapshot(time.time())

    def no_kv_events(self) -> str:
        return no_events(self._spec.kv_events, self.config.enable_prefix_caching)

    def cached_blocks(self) -> KvSnapshot:
        if self._journal is None:
            return KvSnapshot()
        self._tell_kv_events(time.monotonic())
        return self._journal.snapshot()

    def no_sleep(self) -> str:
        return self._nap.problem

    async def sleep(self, level: int) -> None:
        if self._dying:
            raise WorkerLost("the engine does not run")
        self._nap.begin(level, len(self._calls))
        self._scheduler.reset_prefix_cache()
        self._tell_kv_events(time.monotonic())
        await self._nap.fall()

    async def wake(self) -> None:
        await self._nap.wake()

    def inject(self, failure: Failure) -> None:
        if failure.kind in DEADLY:
            process = failure.kind is FailureKind.CRASH and self._settings.exit_process
            # Whoever asked for it hears that it will be.
            self._loop.call_later(max(failure.after_s, _FLUSH_S), self._die, process, "failed on purpose")
        else:
            self._failures.add(failure, time.monotonic())

    def heal(self) -> None:
        self._failures.clear()

    def failures(self) -> tuple[Failure, ...]:
        return self._failures.all(time.monotonic())

    def _wake(self) -> None:
        """Something changed; if no step runs, one begins when everything that came with it is in."""
        if self._timer is None and not self._dying:
            self._timer = self._loop.call_soon(self._begin_now)

    def _begin_now(self) -> None:
        self._timer = None
        self._begin(time.monotonic())

    def _begin(self, start: float) -> None:
        """Schedule as many steps as may be in flight, and run the first of them from ``start``. What only tells
        something is over at once when it comes to it. As vLLM's engine core goes on: see ``SchedulerConfig.depth``."""
        scheduler, flying = self._scheduler, self._flying
        while True:
            idle = not scheduler.has_work()
            while not idle and len(flying) < self.config.depth:
                before = scheduler.step
                scheduled = scheduler.schedule(start)
                self._note(scheduled, start)
                idle = not scheduled.batch
                if idle and scheduled.step == before:
                    scheduler.discard(scheduled)
                else:
                    flying.append(scheduled)
            if not flying:
                return
            if flying[0].batch:
                self._due = start + self._seconds(flying[0], start)
                self._timer = self._loop.call_later(max(0.0, self._due - time.monotonic()), self._land)
                return
            told = flying.popleft()
            self._publish(told, scheduler.complete(told, {}), 0.0)

    def _note(self, scheduled: Scheduled, start: float) -> None:
        """Who joined and who was pushed out."""
        totals = self._totals
        for row in scheduled.batch:
            if row[8]:
                totals.prompt += row[4]
                totals.cached += row[6]
                call = self._choices[row[0]].call
                if not call.scheduled_mono:
                    call.scheduled_mono = max(start, call.received_mono)
                    call.cached_tokens = row[6]
        for name in scheduled.preempted:
            totals.preemptions += 1
            self._choices[name].call.preemptions += 1

    def _seconds(self, scheduled: Scheduled, now: float) -> float:
        seconds = self.profile.timer.seconds(scheduled.batch, scheduled.step) / self._settings.speed
        if self._scripted:
            own = [choice.own_time() for name in scheduled.due if (choice := self._choices.get(name)) is not None]
            asked = [each for each in own if each is not None]
            alone = len(asked) == len(scheduled.batch)
            seconds = max([*asked, 0.0 if alone else seconds])
        return seconds * self._failures.slowness(now)

    def _land(self) -> None:
        """The step's time is over: its tokens come, and the next one begins where it ended."""
        self._timer = None
        now = time.monotonic()
        if self._failures.on(FailureKind.STALL, now):
            self._timer = self._loop.call_later(_STALL_LOOK_S, self._land)
            return
        scheduled = self._flying.popleft()
        tokens: dict[str, Sequence[int]] = {}
        ended: dict[str, str] = {}
        out: dict[Sink, list[Delta]] = {}
        for name in scheduled.due:
            choice = self._choices.get(name)
            if choice is None:
                continue
            if choice.deadly and self._dies(choice):
                break
            delta = self._advance(choice, now, ended)
            tokens[name] = choice.tokens
            if delta is not None:
                out.setdefault(choice.call.sink, []).append(delta)
        self._totals.steps += 1
        finished = self._scheduler.complete(scheduled, tokens, ended)
        # As vLLM's trace has it: from its schedule on, also where another step ran first. A timer may ring early, and
        # no token is out before its step is over.
        self._publish(scheduled, finished, min(self._due, now) - scheduled.now)
        for sink, deltas in out.items():
            sink(deltas)
        if not self._dying:
            self._begin(max(self._due, now - _CATCH_UP_S))

    def _advance(self, choice: SimChoice, now: float, ended: dict[str, str]) -> Delta | None:
        call = choice.call
        delta = choice.step()
        self._totals.generated += len(choice.tokens)
        if not call.first_mono:
            call.first_mono = now
        finish = delta.finish
        if finish is None:
            return delta if call.generate.stream else None
        failed = call.script.finish == "error"
        ended[choice.name] = "error" if failed else "length" if finish.reason is FinishReason.LENGTH else "stop"
        self._forget(choice)
        choice.ended = True
        call.open -= 1
        if not call.open:
            del self._calls[call.generate.call]
            if failed:
                delta.finish = None
                delta.error = CallError(DropReason.INTERNAL_ERROR, "failed by the script")
            else:
                delta.done = call.done(now)
        return delta

    def _forget(self, choice: SimChoice) -> None:
        del self._choices[choice.name]
        self._names.ended(choice.name)
        self._scripted -= choice.script.timed

    def _publish(self, scheduled: Scheduled, finished: Sequence[StepFinished], execute_s: float) -> None:
        self._names.landed(self._flying)
        if self._asked is not None:
            self._asked.set_result(self._scheduler.snapshot(time.time()))
            self._asked = None
        step = self._telling.tell(
            scheduled,
            finished,
            self._scheduler.told_counts(),
            started_unix=time.time() - (time.monotonic() - scheduled.now),
            execute_s=execute_s,
            drop=self._failures.on(FailureKind.DROP_STEPS, scheduled.now),
        )
        if step is not None:
            self.on_steps((step,))
        self._tell_kv_events(scheduled.now)

    def _tell_kv_events(self, now: float) -> None:
        if self._journal is None or (batch := self._journal.batch()) is None:
            return
        if not self._failures.on(FailureKind.DROP_EVENTS, now):
            self.on_kv_events((batch,))

    def _halt(self) -> None:
        self._dying = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _dies(self, choice: SimChoice) -> bool:
        script = choice.script
        if script.die_after is not None and choice.count >= script.die_after:
            self._loop.call_later(_FLUSH_S, self._die, self._settings.exit_process, "died by its script")
        elif script.engine_dies_after is not None and choice.count >= script.engine_dies_after:
            self._loop.call_later(_FLUSH_S, self._die, False, "died by its script")
        else:
            return False
        self._halt()
        return True

    def _die(self, process: bool, cause: str) -> None:
        if process:
            os._exit(1)
        self._halt()
        calls, self._calls = list(self._calls.values()), {}
        for call in calls:
            for choice in call.choices:
                if not choice.ended:
                    self._scheduler.abort(choice.name)
                    self._forget(choice)
            call.sink(call.fail(CallError(DropReason.ENGINE_DEAD, cause)))
        if not self._death.done():
            self._death.set_result(cause)


def _unseen(told: Sequence[EngineStep] | Sequence[KvBatch]) -> None:
    """Nobody listens."""
