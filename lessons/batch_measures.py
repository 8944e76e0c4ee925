"""Measures of the batch: which part calls had in engine steps. Pure; see ``measures``.

A call's steps are known once it has ended. Where steps were lost, nothing is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from control_plane.contracts.step import EngineStep, StepKind, StepRow
from control_plane.contracts.worker import ModelInfo
from lessons.observation import Observation, Value

Part = Literal["", "prefill", "decode"]
"""Computing a prompt, or one token after the other; "": either."""


def steps_of(seen: Observation) -> Iterator[EngineStep]:
    """Every step, worker by worker; none where some were lost."""
    if not seen.lost_steps:
        for steps in seen.steps.values():
            yield from steps


def requests_of(seen: Observation, calls: str) -> set[str]:
    """The requests of the calls of this name, of all without one, as steps name them."""
    return {call.request_id for call in seen.calls if call.request_id and (not calls or call.name == calls)}


def rows_of(step: EngineStep, requests: set[str], part: Part = "") -> list[StepRow]:
    return [row for row in step.rows if row.request_id in requests and part in ("", _part(row))]


def _part(row: StepRow) -> Part:
    return "decode" if row.kind is StepKind.DECODE else "prefill"


@dataclass(frozen=True, slots=True)
class Steps:
    """Engine steps in which one of these calls had a part; ``part`` narrows it to one of prefill and decode."""

    word: ClassVar[str] = "steps"
    unit: ClassVar[str] = "steps"
    calls: str = ""
    part: Part = ""

    def read(self, seen: Observation) -> Value | None:
        requests = requests_of(seen, self.calls)
        if not any(rows_of(step, requests) for step in steps_of(seen)):
            return None
        return float(sum(bool(rows_of(step, requests, self.part)) for step in steps_of(seen)))


@dataclass(frozen=True, slots=True)
class Chunk:
    """The most prompt tokens that a step computed for one of these calls."""

    word: ClassVar[str] = "chunk"
    unit: ClassVar[str] = "tokens"
    calls: str = ""

    def read(self, seen: Observation) -> Value | None:
        requests = requests_of(seen, self.calls)
        rows = (row for step in steps_of(seen) for row in rows_of(step, requests, "prefill"))
        return max((float(row.tokens) for row in rows), default=None)


@dataclass(frozen=True, slots=True)
class Rate:
    """Tokens that the engine got through a second, in steps that did nothing but this part of these calls."""

    word: ClassVar[str] = "rate"
    unit: ClassVar[str] = "tokens/s"
    calls: str = ""
    part: Literal["prefill", "decode"] = "decode"

    def read(self, seen: Observation) -> Value | None:
        requests = requests_of(seen, self.calls)
        own = [step for step in steps_of(seen) if step.rows and rows_of(step, requests, self.part) == [*step.rows]]
        took = sum(step.schedule_s + step.execute_s for step in own)
        return sum(step.tokens for step in own) / took if took > 0 else None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The most steps that the engine made without one of these calls, between the call's first and its last."""

    word: ClassVar[str] = "left_out"
    unit: ClassVar[str] = "steps"
    calls: str = ""

    def read(self, seen: Observation) -> Value | None:
        most: float | None = None
        for steps in seen.steps.values() if not seen.lost_steps else ():
            for request in requests_of(seen, self.calls):
                had = [bool(rows_of(step, {request})) for step in steps]
                if any(had):
                    begin, end = had.index(True), len(had) - had[::-1].index(True)
                    most = max(most or 0.0, float(had[begin:end].count(False)))
        return most


@dataclass(frozen=True, slots=True)
class StepsAfter:
    """Steps that these calls still had after the last one of ``ended``."""

    word: ClassVar[str] = "steps_after"
    unit: ClassVar[str] = "steps"
    calls: str
    ended: str

    def read(self, seen: Observation) -> Value | None:
        mine, others = requests_of(seen, self.calls), requests_of(seen, self.ended)
        steps = list(steps_of(seen))
        ends = [index for index, step in enumerate(steps) if rows_of(step, others)]
        if not ends or not any(rows_of(step, mine) for step in steps):
            return None
        return float(sum(bool(rows_of(step, mine)) for step in steps[ends[-1] + 1 :]))


@dataclass(frozen=True, slots=True)
class FixedSteps:
    """Steps that a fixed batch would need for these calls, worked out from their answers' lengths: as many at a time
    as the engine batches, in the order in which they came, each batch as long as its longest answer."""

    word: ClassVar[str] = "fixed_steps"
    unit: ClassVar[str] = "steps"
    calls: str = ""

    def read(self, seen: Observation) -> Value | None:
        lengths = [call.output_tokens for call in seen.calls if not self.calls or call.name == self.calls]
        size = min((model.max_num_seqs for model in models_of(seen)), default=0)
        if not lengths or not size:
            return None
        return float(sum(max(lengths[at : at + size]) for at in range(0, len(lengths), size)))


def models_of(seen: Observation) -> Iterator[ModelInfo]:
    """What each worker says of its model."""
    for worker in seen.snapshot.workers:
        if worker.info is not None and worker.info.model is not None:
            yield worker.info.model
