"""Where one request's time went: the stages that its gateway, router and worker told, and its engine's steps, on one
clock.

Pure. Stages are told as durations on monotonic clocks and need no correction; steps carry their worker's wall clock,
which is corrected by what was measured of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from control_plane.contracts.choice import choice_of
from control_plane.contracts.fleet import RequestView
from control_plane.contracts.step import EngineStep, StepKind, StepRow
from control_plane.contracts.timeline import ClockSkew, Span, Timeline

_BEFORE_THE_ROUTER: Final = ("auth", "tokenise")
_IN_THE_ROUTER: Final = ("queue", "route")
_AT_THE_WORKER: Final = ("first_token", "at_worker")
_KIND: Final = {StepKind.PREFILL: "prefill", StepKind.LAST_PREFILL: "prefill", StepKind.DECODE: "decode"}


def join(request: RequestView, steps: Sequence[EngineStep], clock: ClockSkew | None = None) -> Timeline:
    """``steps``: those that have the request, oldest first; ``clock``: of the worker that made them."""
    engine = f"engine/{request.worker_id}"
    ahead = clock.ahead_s if clock is not None else 0.0
    stages = _stages(request)
    if steps and stages and (last := _untold(stages)) is not None:
        stages[last : last + 1] = _told(stages[last], request, steps, ahead)
    spans = [_stage(request, name, start, took) for name, start, took in stages]
    preempted: dict[str, float] = {}
    gave = 0
    for step in steps:
        start = step.started_unix - ahead - request.arrival_unix
        for row in step.rows:
            choice = choice_of(row.request_id, request.id)
            if choice is None:
                continue
            if row.request_id in preempted:
                began = preempted.pop(row.request_id)
                spans.append(_pause(engine, began, start - began, choice))
            gave += row.kind is not StepKind.PREFILL
            spans.append(_step(engine, step, row, start, choice))
        for request_id in step.preempted:
            if choice_of(request_id, request.id) is not None:
                preempted.setdefault(request_id, start)
    if reply := _reply(request, spans):
        spans.append(reply)
    return Timeline(
        request=request,
        spans=tuple(spans),
        clocks=() if clock is None else (clock,),
        missing_steps=max(0, request.output_tokens - gave) if steps else request.output_tokens,
    )


def _stages(request: RequestView) -> list[tuple[str, float, float]]:
    return [(stage.name, stage.start_s, stage.duration_s) for stage in request.stages]


def _untold(stages: Sequence[tuple[str, float, float]]) -> int | None:
    """Which stage is all that the router knows of the last worker; None where the worker told more."""
    return next((at for at in reversed(range(len(stages))) if stages[at][0] in _AT_THE_WORKER), None)


def _told(
    stage: tuple[str, float, float], request: RequestView, steps: Sequence[EngineStep], ahead: float
) -> list[tuple[str, float, float]]:
    """What the engine's steps say of it: when the call was first scheduled, and when its prompt was through. As it is
    where none of them lies in it."""
    name, start, took = stage
    end = start + took
    rows = [
        (step.started_unix - ahead - request.arrival_unix, step.schedule_s + step.execute_s, row.kind)
        for step in steps
        for row in step.rows
        if choice_of(row.request_id, request.id) is not None
    ]
    begun = rows[0][0] if rows else end
    if not start <= begun < end or rows[0][2] is StepKind.DECODE:
        return [stage]
    through = next((at + lasted for at, lasted, kind in rows if kind is StepKind.LAST_PREFILL), end)
    first = end if name == "first_token" else min(through, end)
    found = [("worker_queue", start, begun - start), ("prefill", begun, first - begun)]
    return [*found, ("decode", first, end - first)] if first < end else found


def _stage(request: RequestView, name: str, start: float, took: float) -> Span:
    if name in _BEFORE_THE_ROUTER:
        process = f"gateway/{request.gateway_id}"
    elif name in _IN_THE_ROUTER:
        process = f"router/{request.gateway_id}"
    else:
        process = f"worker/{request.worker_id}"
    attributes = {}
    if name == "prefill":
        attributes = {"prompt_tokens": str(request.prompt_tokens), "cached_tokens": str(request.cached_tokens)}
    elif name == "decode":
        attributes = {"output_tokens": str(request.output_tokens)}
    elif name == "route":
        attributes = {"worker": request.worker_id, "retries": str(request.retries)}
    return Span(name, process, start, took, attributes=attributes)


def _step(engine: str, step: EngineStep, row: StepRow, start: float, choice: int) -> Span:
    attributes = {
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


def _pause(engine: str, start: float, took: float, choice: int) -> Span:
    return Span("preempted", engine, start, took, "decode", {"choice": str(choice)} if choice else {})


def _reply(request: RequestView, spans: Sequence[Span]) -> Span | None:
    """From the engine's last token to the answer's last byte."""
    decoded = [span.start_s + span.duration_s for span in spans if span.name == "decode"]
    if not decoded or request.phase.active or request.duration_s <= decoded[-1]:
        return None
    return Span("reply", f"gateway/{request.gateway_id}", decoded[-1], request.duration_s - decoded[-1])
