"""Where one request's time went: the stages that its gateway, router and worker told, and its engine's steps, on one
clock.

Pure. Stages are told as durations on monotonic clocks and need no correction; steps carry their worker's wall clock,
which is corrected by what was measured of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from control_plane.contracts.choice import choice_of
from control_plane.contracts.fleet import RequestView, Stage
from control_plane.contracts.step import EngineStep, StepKind, StepRow
from control_plane.contracts.timeline import ClockSkew, Span, Timeline

_BEFORE_THE_ROUTER: Final = ("auth", "tokenise")
_IN_THE_ROUTER: Final = ("queue", "route")
_AT_THE_WORKER: Final = ("first_token", "at_worker")
_KIND: Final = {StepKind.PREFILL: "prefill", StepKind.LAST_PREFILL: "prefill", StepKind.DECODE: "decode"}


@dataclass(frozen=True, slots=True)
class _Attempts:
    """Which attempt at a worker each stage is of, from 1, and since when each that its steps can be of went on."""

    of_stage: tuple[int, ...]
    began: Mapping[int, float]

    @property
    def last(self) -> int:
        return self.of_stage[-1] if self.of_stage else 0

    def at(self, start: float) -> int:
        return max((attempt for attempt, began in self.began.items() if began <= start), default=min(self.began))


def join(request: RequestView, steps: Sequence[EngineStep], clock: ClockSkew | None = None) -> Timeline:
    """``steps``: those that have the request, oldest first; ``clock``: of the worker that made them, its last one."""
    engine = f"engine/{request.worker_id}"
    ahead, unsure = (clock.ahead_s, clock.uncertainty_s) if clock is not None else (0.0, 0.0)
    attempts = _attempts(request)
    stages = [(stage, attempt) for stage, attempt in zip(request.stages, attempts.of_stage, strict=True)]
    if steps and (last := _untold(stages)) is not None:
        own = [step for step in steps if attempts.at(_start(step, request, ahead) + unsure) == attempts.last]
        stages[last : last + 1] = [(told, attempts.last) for told in _told(stages[last][0], request, own, ahead)]
    spans = [_stage(request, stage, attempt, attempts.last) for stage, attempt in stages]
    preempted: dict[str, tuple[float, dict[str, str]]] = {}
    gave = 0
    for step in steps:
        start = _start(step, request, ahead)
        said = _said(attempts.at(start + unsure), attempts.last)
        for row in step.rows:
            choice = choice_of(row.request_id, request.id)
            if choice is None:
                continue
            if row.request_id in preempted:
                began, then = preempted.pop(row.request_id)
                spans.append(_pause(engine, began, start - began, choice, then))
            gave += row.kind is not StepKind.PREFILL
            spans.append(_step(engine, step, row, start, choice, said))
        for request_id in step.preempted:
            if choice_of(request_id, request.id) is not None:
                preempted.setdefault(request_id, (start, said))
    if reply := _reply(request, spans):
        spans.append(reply)
    return Timeline(
        request=request,
        spans=tuple(spans),
        clocks=() if clock is None else (clock,),
        missing_steps=max(0, request.output_tokens - gave) if steps else request.output_tokens,
    )


def _attempts(request: RequestView) -> _Attempts:
    """A new one begins where the call is at its router again. What comes before the router is of none."""
    number, before = 0, ""
    of_stage: list[int] = []
    began: dict[int, float] = {}
    for stage in request.stages:
        if stage.name in _IN_THE_ROUTER and before not in ("queue", stage.name):
            number += 1
        before = stage.name
        of_stage.append(number)
        if stage.worker_id not in ("", request.worker_id):
            began.pop(number, None)
        elif number:
            began.setdefault(number, stage.start_s)
    return _Attempts(tuple(of_stage), began or {number: 0.0})


def _start(step: EngineStep, request: RequestView, ahead: float) -> float:
    return step.started_unix - ahead - request.arrival_unix


def _said(attempt: int, last: int) -> dict[str, str]:
    """Of a call that never went on elsewhere there is nothing to say."""
    return {"attempt": str(attempt)} if attempt and last > 1 else {}


def _untold(stages: Sequence[tuple[Stage, int]]) -> int | None:
    """Which stage is all that the router knows of the last attempt; None where the worker told more."""
    last = stages[-1][1] if stages else 0
    places = (at for at in reversed(range(len(stages))) if stages[at][1] == last)
    return next((at for at in places if stages[at][0].name in _AT_THE_WORKER), None)


def _told(stage: Stage, request: RequestView, steps: Sequence[EngineStep], ahead: float) -> list[Stage]:
    """What the engine's steps say of it: when the call was first scheduled, and when its prompt was through. As it is
    where none of them lies in it."""
    start, end = stage.start_s, stage.start_s + stage.duration_s
    rows = [
        (_start(step, request, ahead), step.schedule_s + step.execute_s, row.kind)
        for step in steps
        for row in step.rows
        if choice_of(row.request_id, request.id) is not None
    ]
    begun = rows[0][0] if rows else end
    if not start <= begun < end or rows[0][2] is StepKind.DECODE:
        return [stage]
    through = next((at + lasted for at, lasted, kind in rows if kind is StepKind.LAST_PREFILL), end)
    first = end if stage.name == "first_token" else min(through, end)
    found = [Stage("worker_queue", start, begun - start), Stage("prefill", begun, first - begun)]
    return [*found, Stage("decode", first, end - first)] if first < end else found


def _stage(request: RequestView, stage: Stage, attempt: int, last: int) -> Span:
    """Of an attempt that came to nothing its worker is known at most: the request's counts are of the last one."""
    name, over = stage.name, attempt != last
    worker_id = stage.worker_id if over else request.worker_id
    if name in _BEFORE_THE_ROUTER:
        process = f"gateway/{request.gateway_id}"
    elif name in _IN_THE_ROUTER:
        process = f"router/{request.gateway_id}"
    else:
        process = f"worker/{worker_id}"
    attributes = _said(attempt, last)
    if name == "route":
        attributes |= {"worker": worker_id} | ({} if over else {"retries": str(request.retries)})
    elif name == "prefill" and not over:
        attributes |= {"prompt_tokens": str(request.prompt_tokens), "cached_tokens": str(request.cached_tokens)}
    elif name == "decode" and last <= 1:
        attributes |= {"output_tokens": str(request.output_tokens)}
    return Span(name, process, stage.start_s, stage.duration_s, attributes=attributes)


def _step(engine: str, step: EngineStep, row: StepRow, start: float, choice: int, said: Mapping[str, str]) -> Span:
    attributes = {
        **said,
        "step": str(step.step),
        "kind": row.kind.name.lower(),
        "tokens": str(row.tokens),
        "computed": str(row.computed),
        "batch": str(step.batch or len(step.rows)),
        "batch_tokens": str(step.tokens),
        "schedule_s": f"{step.schedule_s:.6f}",
    }
    if row.joined or row.resumed:
        attributes["cached_tokens"] = str(row.cached_tokens)
        attributes["began"] = "joined" if row.joined else "resumed"
    if choice:
        attributes["choice"] = str(choice)
    if beside := _prefill_beside(step, row.request_id):
        attributes["prefill_beside"] = f"{beside.request_id} ({beside.tokens} tokens)"
    return Span("step", engine, start, step.schedule_s + step.execute_s, _KIND.get(row.kind, ""), attributes)


def _prefill_beside(step: EngineStep, request_id: str) -> StepRow | None:
    """The largest prompt in the same batch: what a long step is long for."""
    others = [row for row in step.rows if row.request_id != request_id and row.kind is not StepKind.DECODE]
    return max(others, key=lambda row: row.tokens, default=None)


def _pause(engine: str, start: float, took: float, choice: int, said: Mapping[str, str]) -> Span:
    attributes = {**said, "choice": str(choice)} if choice else dict(said)
    return Span("preempted", engine, start, took, "decode", attributes)


def _reply(request: RequestView, spans: Sequence[Span]) -> Span | None:
    """From the engine's last token to the answer's last byte."""
    decoded = [span.start_s + span.duration_s for span in spans if span.name == "decode"]
    if not decoded or request.phase.active or request.duration_s <= decoded[-1]:
        return None
    return Span("reply", f"gateway/{request.gateway_id}", decoded[-1], request.duration_s - decoded[-1])
