"""A call and its choices inside the simulator."""

from __future__ import annotations

from dataclasses import dataclass, field

from control_plane.contracts.worker import CallError, Delta, Done, Finish, FinishReason, Generate, Stages
from workers.engine.base import Sink
from workers.engine.modelless.choice import AnsweredChoice
from workers.engine.modelless.script import Script


@dataclass(slots=True, eq=False)
class SimCall:
    """``*_mono`` is ``time.monotonic()``, 0 for what has not happened; ``open`` counts the choices that go on."""

    generate: Generate
    script: Script
    sink: Sink
    received_unix: float
    received_mono: float
    choices: list[SimChoice] = field(default_factory=list)
    open: int = 0
    cached_tokens: int = 0
    preemptions: int = 0
    scheduled_mono: float = 0.0
    first_mono: float = 0.0

    def done(self, now: float) -> Done:
        first, scheduled = self.first_mono, self.scheduled_mono
        stages = Stages(
            received_unix=self.received_unix,
            queued_s=max(0.0, (scheduled or now) - self.received_mono),
            prefill_s=(first or now) - scheduled if scheduled else 0.0,
            decode_s=now - first if first else 0.0,
            preemptions=self.preemptions,
        )
        output = sum(choice.count for choice in self.choices)
        prompt = len(self.generate.prompt_token_ids) - self.generate.resumed
        return Done(prompt, min(self.cached_tokens, prompt), output, stages)

    def abort(self, now: float) -> list[Delta]:
        """The last deltas of all choices that go on; the call's end is on the last of them."""
        number, deltas = self.generate.call, []
        for choice in self.choices:
            if not choice.ended:
                choice.ended = True
                deltas.append(Delta(number, choice=choice.index, finish=Finish(FinishReason.ABORT, choice.count)))
        deltas[-1].done = self.done(now)
        return deltas

    def fail(self, error: CallError) -> list[Delta]:
        for choice in self.choices:
            choice.ended = True
        return [Delta(self.generate.call, error=error)]


@dataclass(slots=True, eq=False, kw_only=True)
class SimChoice(AnsweredChoice):
    """``tokens`` holds those of the last step only; ``name`` is its id in the scheduler and in steps."""

    call: SimCall
    name: str
    stalled: bool = False

    def step(self) -> Delta:
        self.tokens.clear()
        return self.advance()

    def own_time(self) -> float | None:
        """Seconds that its script wants the coming step to take; None leaves it to the profile."""
        script = self.script
        seconds = script.prefill_s if not self.count and script.prefill_s is not None else script.delay_s
        if script.stall_s and not self.stalled and self.count >= script.stall_after:
            self.stalled = True
            return (seconds or 0.0) + script.stall_s
        return seconds
