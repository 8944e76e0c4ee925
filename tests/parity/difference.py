"""The first step in which two schedulers differ, the shortest trace that shows it, and how to read it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest

from control_plane.contracts.step import EngineStep
from tests.parity.observed import Seen, Side, play
from tests.parity.trace import Trace
from workers.engine.sim.config import SchedulerConfig

MakeSide = Callable[[SchedulerConfig], Side]


@dataclass(frozen=True, slots=True)
class Difference:
    """``None`` on one side: that scheduler was done by then."""

    trace: Trace
    step: int
    vllm: Seen | None
    sim: Seen | None


@dataclass(slots=True)
class Compared:
    """How much was compared, so that nobody mistakes an empty run for an equal one."""

    steps: int = 0
    rows: int = 0
    cached_rows: int = 0
    preemptions: int = 0
    finished: int = 0
    aborted: int = 0
    stored: int = 0
    removed: int = 0
    cleared: int = 0


def first_difference(
    trace: Trace, vllm: MakeSide, sim: MakeSide, compared: Compared | None = None
) -> Difference | None:
    both = zip_longest(play(trace, vllm(trace.config)), play(trace, sim(trace.config)))
    for step, (left, right) in enumerate(both):
        if left != right:
            return Difference(trace, step, left, right)
        if compared is not None and left is not None:
            compared.steps += bool(left.rows)
            compared.rows += len(left.rows)
            compared.cached_rows += sum(row.joined and row.cached_tokens > 0 for row in left.rows)
            compared.preemptions += len(left.preempted)
            compared.finished += len(left.finished)
            for event in left.kv_batch.events if left.kv_batch is not None else ():
                compared.stored += len(event.stored)
                compared.removed += len(event.removed)
                compared.cleared += event.cleared
            compared.aborted += sum(end[1] == "abort" for end in left.finished)
    return None


def minimised(difference: Difference, vllm: MakeSide, sim: MakeSide) -> Difference:
    """Leave out what is not needed for a difference: requests first, then cancels and resets."""
    smallest, shrunk = difference, True
    while shrunk:
        shrunk = False
        for candidate in _smaller(smallest.trace):
            found = first_difference(candidate, vllm, sim)
            if found is not None:
                smallest, shrunk = found, True
                break
    return smallest


def _smaller(trace: Trace) -> Iterator[Trace]:
    for index in range(len(trace.arrivals)):
        arrivals = trace.arrivals[:index] + trace.arrivals[index + 1 :]
        kept = {arrival.request.request_id for arrival in arrivals}
        cancels = tuple(cancel for cancel in trace.cancels if cancel.request_id in kept)
        yield dataclasses.replace(trace, arrivals=arrivals, cancels=cancels)
    for index in range(len(trace.cancels)):
        yield dataclasses.replace(trace, cancels=trace.cancels[:index] + trace.cancels[index + 1 :])
    if trace.resets:
        yield dataclasses.replace(trace, resets=())


def readable(difference: Difference) -> str:
    trace = difference.trace
    lines = [f"seed {trace.seed}, step {difference.step}: vLLM and the simulator differ", f"  {trace.config}"]
    for arrival in trace.arrivals:
        request = arrival.request
        lines.append(
            f"  step {arrival.step:3}  {request.request_id}: {len(request.prompt_token_ids)} prompt tokens, "
            f"{len(arrival.output)} of {request.max_tokens} output, priority {request.priority}, "
            f"arrival {request.arrival:g}, salt {request.cache_salt!r}"
        )
    lines += [
        f"  step {cancel.step:3}  {cancel.request_id} is cancelled{' in flight' * cancel.in_flight}"
        for cancel in trace.cancels
    ]
    if trace.resets:
        lines.append(f"  the prefix cache is reset before steps {trace.resets}")
    if difference.vllm is None or difference.sim is None:
        lines.append(f"  {'vLLM' if difference.vllm is None else 'the simulator'} was done; the other did")
        lines.append(f"    {difference.vllm or difference.sim}")
        return "\n".join(lines)
    for field in dataclasses.fields(Seen):
        left, right = getattr(difference.vllm, field.name), getattr(difference.sim, field.name)
        if left == right:
            continue
        lines.append(f"  {field.name}")
        if isinstance(left, EngineStep) and isinstance(right, EngineStep):
            for name in (one.name for one in dataclasses.fields(EngineStep)):
                one, other = getattr(left, name), getattr(right, name)
                if one != other:
                    lines += [f"    {name}", f"    vLLM {one}", f"    sim  {other}"]
        elif isinstance(left, tuple) and field.name in ("rows", "tables", "finished", "waiting"):
            for one, other in zip_longest(left, right):
                mark = " " if one == other else "≠"
                lines += [f"  {mark} vLLM {one}", f"  {mark} sim  {other}"] if mark == "≠" else [f"    both {one}"]
        else:
            lines += [f"    vLLM {left}", f"    sim  {right}"]
    return "\n".join(lines)
