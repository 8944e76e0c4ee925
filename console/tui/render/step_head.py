"""The lines about one engine as a whole: the step that is looked at, its trace, and who waits for what."""

from __future__ import annotations

from dataclasses import dataclass

from console.tui.live.steps import Moment
from console.tui.render.figures import age, count, duration
from console.tui.render.look import Look
from console.tui.render.spans import Span, apart, width_of
from control_plane.contracts.step import EngineStep, StepWaiting, TraceMode, TraceState

_OLD_S = 2.0
_NARROW = 70  # cells below which a trace is told only where something is missing, and how much came after not at all


@dataclass(frozen=True, slots=True)
class Limits:
    """What the engine's scheduler may do in one step; 0 where that is not known."""

    seats: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Age:
    """How long ago the last step ended, and whether the engine has had nothing to do since; else one is under way, or
    is not traced."""

    seconds: float
    idle: bool = False


def head(moment: Moment, behind: int | None, last: Age, trace: TraceState, width: int, look: Look) -> list[Span]:
    """``behind`` is how many kept steps lie after the one that is looked at, None while live."""
    palette, glyphs = look.palette, look.glyphs
    step = moment.step
    line: list[Span] = []
    if behind is not None:
        later = f", {behind} before the end" if behind and width >= _NARROW else ""
        line += [(f" ‖ step {step.step}", palette.watch), (later, palette.dim)]
    elif last.seconds >= _OLD_S:
        since = f", idle {age(last.seconds)}" if last.idle else f", {age(last.seconds)} ago"
        line += [(f" {glyphs.starting} step {step.step}", palette.title), (since, palette.dim)]
    else:
        line += [(f" {glyphs.arrow} step {step.step}", palette.title)]
    words = (" tokens  ", " in batch  ", " waiting") if width >= 100 else (" tok  ", " run  ", " wait")
    line += [
        (f"  {duration(step.schedule_s + step.execute_s)}", palette.good),
        (f" ({duration(step.schedule_s)} to schedule)" if width >= 100 else "", palette.dim),
        (f"  {count(step.tokens)}", palette.series),
        (words[0], palette.dim),
        (count(len(step.rows)), palette.title),
        (words[1], palette.dim),
        (count(step.waiting_total), palette.watch if step.waiting_total else palette.text),
        (words[2], palette.dim),
    ]
    if step.preempted:
        line.append((f"  {len(step.preempted)} preempted", palette.bad))
    whole = trace.mode is TraceMode.FULL and not trace.dropped and not trace.unavailable
    traced = trace_words(trace, look)
    crowded = width < _NARROW or width_of(line) + width_of(traced) >= width
    return apart(line, [] if whole and crowded else traced, width)


def trace_words(trace: TraceState, look: Look) -> list[Span]:
    palette = look.palette
    if trace.unavailable:
        return [("no trace ", palette.watch)]
    if trace.mode is TraceMode.OFF:
        return [("trace off ", palette.watch)]
    mode = f"1 in {trace.every}" if trace.mode is TraceMode.SAMPLED else trace.mode.name.lower()
    lost = (f"{count(trace.dropped)} dropped ", palette.bad if trace.dropped else palette.dim)
    return [(f"trace {mode}, ", palette.dim), lost]


def needed(waiting: StepWaiting, block_size: int) -> int | None:
    """Blocks that hold all its tokens so far, and the next one's place; None while the size of a block is unknown.
    Blocks that a prefix hit brings are among them."""
    return -(-(waiting.tokens + 1) // block_size) if block_size else None


def needs(waiting: StepWaiting, moment: Moment) -> str:
    blocks = needed(waiting, moment.block_size)
    what = f"{count(blocks)} blk" if blocks is not None else f"{count(waiting.tokens)} tokens"
    return f"{what} again" if waiting.preempted else f"needs {what}"


def queue_line(moment: Moment, names: str, limits: Limits, look: Look) -> list[Span]:
    """Who comes next, what it needs against what is free, and what is used up. ``names`` is the next one's."""
    palette = look.palette
    step = moment.step
    can_be_had = step.free_blocks + step.cached_free_blocks
    if not step.waiting_total:
        return [(" nobody waits: the next one finds ", palette.faint), (f"{count(can_be_had)} blocks", palette.dim)]
    line: list[Span] = [(f" {count(step.waiting_total)} waiting", palette.watch)]
    if step.waiting:
        first = step.waiting[0]
        blocks = needed(first, moment.block_size)
        short = blocks is not None and blocks > can_be_had
        line += [("  next ", palette.dim), (names, palette.text), (f": {count(first.tokens)} tokens, ", palette.dim)]
        line += [(f"{count(blocks)} blocks", palette.bad if short else palette.text), (" of ", palette.dim)]
        line += [(count(can_be_had), palette.text), (" to be had", palette.dim)]
    return [*line, *_used_up(step, limits, look)]


def _used_up(step: EngineStep, limits: Limits, look: Look) -> list[Span]:
    """Limits that the step has reached."""
    reached = []
    if limits.seats and len(step.rows) >= limits.seats:
        reached.append(f"all {limits.seats} seats taken")
    if limits.tokens and step.tokens >= limits.tokens:
        reached.append(f"all {count(limits.tokens)} tokens of the step spent")
    return [(f"  {', '.join(reached)}", look.palette.watch)] if reached else []
