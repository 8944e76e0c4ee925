"""What a request's engine steps say of its stages, in words: how its prompt was cut, its pace, stalls and causes."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Final

from console import figures
from control_plane.contracts.timeline import Span, Timeline

_STALL_TIMES: Final = 3.0
"""A step this many times as long as the median is worth a word."""

_MOST_CHUNKS: Final = 8


def stage_notes(timeline: Timeline, stage: Span) -> list[str]:
    """What is worth knowing of a stage beyond its length."""
    parts = [span for span in timeline.spans if span.of(stage)]
    steps = [span for span in parts if span.name == "step"]
    notes = []
    if _went_on(timeline, stage):
        notes.append(f"at {stage.process.partition('/')[2] or 'another worker'}, whose steps of it are not kept")
    if stage.name == "prefill" and steps:
        notes.append(_chunks(steps))
    elif stage.name == "decode":
        if steps:
            notes.append(_pace(steps))
        notes += _stalls(steps)
        pauses = [span.duration_s for span in parts if span.name == "preempted"]
        if pauses:
            notes.append(f"preempted {_times(len(pauses))}, {figures.seconds(sum(pauses))} in all")
    return notes


def _went_on(timeline: Timeline, stage: Span) -> bool:
    """Whether it is the first at its worker of an attempt that no step is known of, and that another one followed."""
    own = [span for span in timeline.spans if span.attempt == stage.attempt]
    first = next((span for span in own if not span.parent and span.process.startswith("worker/")), None)
    later = any(span.attempt > stage.attempt for span in timeline.spans)
    return later and first is stage and not any(span.name == "step" for span in own)


def _chunks(steps: Sequence[Span]) -> str:
    tokens = [span.attributes.get("tokens", figures.NONE) for span in steps]
    shown = " + ".join(tokens[:_MOST_CHUNKS]) + (" + …" if len(tokens) > _MOST_CHUNKS else "")
    cached = next((int(c) for span in steps if (c := span.attributes.get("cached_tokens", ""))), 0)
    return f"{figures.plural(len(steps), 'step')}: {shown} tokens" + (f", {cached:,} from the cache" if cached else "")


def _pace(steps: Sequence[Span]) -> str:
    batches = [int(span.attributes.get("batch", "0")) for span in steps]
    batch = f"{min(batches)}" if min(batches) == max(batches) else f"{min(batches)} to {max(batches)}"
    middle = figures.seconds(statistics.median(span.duration_s for span in steps))
    return f"{figures.plural(len(steps), 'step')} of {middle} (median), in a batch of {batch}"


def _stalls(steps: Sequence[Span]) -> list[str]:
    if len(steps) < 3:
        return []
    usual = statistics.median(span.duration_s for span in steps)
    long = sorted((s for s in steps if s.duration_s > _STALL_TIMES * usual), key=lambda span: -span.duration_s)
    if not long:
        return []
    worst = long[0]
    beside = worst.attributes.get("prefill_beside")
    cause = f", beside the prefill of {beside}" if beside else ""
    return [
        f"{figures.plural(len(long), 'stall')}, the longest {figures.seconds(worst.duration_s)} "
        f"at step {worst.attributes.get('step', figures.NONE)}{cause}"
    ]


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
