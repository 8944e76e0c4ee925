"""One request's timeline as lines: its stages as a waterfall, and under each what the engine's steps say of it."""

from __future__ import annotations

from collections.abc import Iterator

from console import figures
from console.plain.waterfall import waterfall
from console.stage_notes import stage_notes
from console.text import fit, literal
from control_plane.contracts.fleet import Stage
from control_plane.contracts.timeline import Timeline


def timeline_lines(timeline: Timeline, total_s: float, width: int) -> Iterator[str]:
    """``total_s``: arrival to end, or to now; nothing is wider than ``width`` cells."""
    stages = [span for span in timeline.spans if not span.parent]
    bars = waterfall(
        [Stage(span.name, span.start_s, span.duration_s) for span in stages],
        total_s,
        width=width,
        open_ended=timeline.request.phase.active,
    )
    for span, bar in zip(stages, bars, strict=True):
        yield bar
        for note in stage_notes(timeline, span):
            yield fit(f"  {literal(note)}", width)
    if timeline.missing_steps:
        yield fit(f"{figures.plural(timeline.missing_steps, 'step')} of it not traced, or no longer kept", width)


def step_lines(timeline: Timeline) -> Iterator[str]:
    """Every step, a line each; all values as they are."""
    yield "  ".join(("AFTER", "TOOK", "STEP", "KIND", "TOKENS", "BATCH × TOKENS", "BESIDE A PREFILL OF"))
    for span in timeline.spans:
        if span.name == "preempted":
            yield f"{figures.seconds(span.start_s)}  {figures.seconds(span.duration_s)}  preempted"
        elif span.name == "step":
            said = span.attributes
            columns = (
                figures.seconds(span.start_s),
                figures.seconds(span.duration_s),
                said.get("step", figures.NONE),
                said.get("kind", figures.NONE).replace("_", " "),
                said.get("tokens", figures.NONE),
                f"{said.get('batch', figures.NONE)} × {said.get('batch_tokens', figures.NONE)}",
                said.get("prefill_beside", ""),
            )
            yield literal("  ".join(columns).rstrip())
