"""Where one request's time went: a line per stage on a common axis."""

from __future__ import annotations

import math

from console.tui.live.loads import finite
from console.tui.render.figures import count, duration, known
from console.tui.render.look import Look
from console.tui.render.spans import Span, fit
from control_plane.contracts.fleet import RequestPhase, RequestView, Stage

_NAME, _TIME = 13, 8
_SMALLEST_AXIS = 10
_WORTH_SHOWING = 0.01
_COLOURS = {"queue": "watch", "worker_queue": "watch", "prefill": "accent", "decode": "good"}
# Stages are told when they end: what a running request is in now is the time since the last one.
_UNTOLD = {
    RequestPhase.QUEUED: "queued now",
    RequestPhase.DISPATCHED: "at worker now",
    RequestPhase.DECODING: "decoding now",
}


def waterfall(request: RequestView, width: int, look: Look) -> list[list[Span]]:
    """A line per stage, oldest first, then the axis. Time that belongs to no stage has a line of its own at the end."""
    palette = look.palette
    stages = sorted((stage for stage in request.stages if _drawable(stage)), key=lambda stage: stage.start_s)
    told = max((stage.start_s + stage.duration_s for stage in stages), default=0.0)
    end = max(finite(request.duration_s) or 0.0, told)
    if end - told > _WORTH_SHOWING * end:
        stages.append(Stage(_UNTOLD.get(request.phase, "not told"), told, end - told))
    if not stages:
        return [[("no stage has ended yet", palette.dim)]]
    notes = width >= 96
    axis = max(_SMALLEST_AXIS, width - _NAME - _TIME - 2 - (30 if notes else 0))
    lines = []
    for stage in stages:
        style = getattr(palette, _COLOURS.get(stage.name, "faint" if stage.start_s == told else "series"))
        line: list[Span] = [
            *fit([(stage.name, palette.text)], _NAME, look.glyphs.ellipsis),
            (f"{duration(stage.duration_s):>{_TIME}} ", palette.title),
            (look.glyphs.down, palette.edge),
            *fit([(_bar(stage, end, axis, look), style)], axis, look.glyphs.ellipsis),
        ]
        if notes:
            line.append((f" {_note(stage, request)}", palette.dim))
        lines.append(line)
    return [*lines, _axis(end, axis, look)]


def _drawable(stage: Stage) -> bool:
    return math.isfinite(stage.start_s + stage.duration_s) and stage.duration_s >= 0


def stage_notes(request: RequestView) -> list[str]:
    """What is worth saying of each stage, for when there is no room beside its bar."""
    notes = ((stage, _note(stage, request)) for stage in request.stages)
    return [f"{stage.name}: {note}" for stage, note in notes if note]


def _bar(stage: Stage, end: float, width: int, look: Look) -> str:
    if end <= 0:
        return ""
    eighths = look.glyphs.bar_eighths
    parts = len(eighths)
    start = min(width * parts - 1, math.floor(_share(stage.start_s, end) * width * parts))
    length = max(1, round(_share(stage.duration_s, end) * width * parts))
    first, whole = divmod(start, parts)
    length = min(length + whole, (width - first) * parts)  # partial blocks grow from the left: begin at the cell's edge
    full, rest = divmod(length, parts)
    return " " * first + eighths[-1] * full + (eighths[rest - 1] if rest else "")


def _share(part: float, whole: float) -> float:
    return min(1.0, max(0.0, part / whole))


def _note(stage: Stage, request: RequestView) -> str:
    if stage.worker_id:  # the request's counts are of its last attempt
        return f"to {stage.worker_id}, which did not end it" if stage.name == "route" else ""
    if stage.name == "prefill":
        cached = f", {count(request.cached_tokens)} cached" if request.cached_tokens else ""
        return f"{count(request.prompt_tokens)} prompt tokens{cached}"
    if stage.name == "decode":
        gap = f", ITL p50 {duration(known(request.itl_p50_s))}" if request.itl_p50_s else ""
        return f"{count(request.output_tokens)} {'token' if request.output_tokens == 1 else 'tokens'}{gap}"
    if stage.name == "queue" and request.phase is RequestPhase.QUEUED:
        return "waiting for a worker"
    if stage.name == "route" and request.worker_id:
        return f"to {request.worker_id}" + (f", {request.retries} retried" if request.retries else "")
    return ""


def _axis(end: float, width: int, look: Look) -> list[Span]:
    middle, last = duration(end / 2), duration(end)
    gap = max(1, width // 2 - 1 - len(middle) // 2)
    text = "0" + " " * gap + middle
    text += " " * max(1, width - len(text) - len(last)) + last
    return [(" " * (_NAME + _TIME + 2), look.palette.faint), (text, look.palette.faint)]
