"""An engine's steps as lines: one a step, what it cost and what changed in the batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from console import figures
from console.plain.terminal import paint
from console.text import fit, literal, pad
from control_plane.contracts.step import EngineStep, StepKind, StepRow, TraceMode, TraceState

HEADING: Final = ("STEP", "TOOK", "TOKENS", "BATCH", "WAIT", "KV", "BATCH BY REQUEST")
_WIDTHS: Final = (8, 8, 6, 5, 4, 4)
_SHORTEST: Final = 8

LEGEND: Final = (
    "+ joined  ^ resumed  - left  x preempted  pN/M: N tokens of a prompt of M  PN: its last N, gives a token  d decode"
)


def heading() -> str:
    return _columns(HEADING)


def step_line(step: EngineStep, room: int | None = None) -> str:
    """Joins and preemptions come first, then what prefills, who left, and who decodes. With ``room`` the ids are as
    short as they can be told apart in this step, and the line is cut."""
    names = _names(step, room is not None)
    told = [_changed(row, names) for row in step.rows if row.kind is not StepKind.DECODE or row.joined or row.resumed]
    told += [f"x{names[name]} preempted" for name in step.preempted]
    told += [
        f"-{names[each.request_id]} {literal(each.reason)} after {figures.plural(each.output_tokens, 'token')}"
        for each in step.finished
    ]
    decoding = [row for row in step.rows if row.kind is StepKind.DECODE and not (row.joined or row.resumed)]
    if decoding:
        told.append("d " + " ".join(_decoding(row, names) for row in decoding))
    used = step.used_blocks / step.total_blocks if step.total_blocks else None
    line = _columns(
        (
            str(step.step),
            figures.seconds(step.schedule_s + step.execute_s),
            str(step.tokens),
            str(len(step.rows)),
            str(step.waiting_total),
            figures.percent(used),
            "  ".join(told) or "nothing ran",
        )
    )
    return line if room is None else fit(line, room)


def lost_line(count: int) -> str:
    return paint(f"{figures.plural(count, 'step')} lost here", "watch")


def trace_words(state: TraceState) -> str:
    """How the trace stands, in a few words."""
    if state.unavailable:
        return f"no trace: {literal(state.unavailable)}"
    mode = f"every {state.every}" if state.mode is TraceMode.SAMPLED else state.mode.name.lower()
    kept = f"kept from {state.first_kept}" if state.first_kept else "none kept"
    return f"trace {mode}, step {state.step}, {kept}, {state.dropped} dropped"


def _changed(row: StepRow, names: dict[str, str]) -> str:
    mark = "+" if row.joined else "^" if row.resumed else ""
    whole = max(row.prompt_tokens, row.computed + row.tokens)
    amount = f"p{row.tokens}/{whole}" if row.kind is StepKind.PREFILL else f"P{row.tokens}"
    if row.kind is StepKind.DECODE:
        amount = "d"
    cached = f" ({row.cached_tokens} cached)" if row.joined and row.cached_tokens else ""
    return f"{mark}{names[row.request_id]} {amount}{cached}"


def _decoding(row: StepRow, names: dict[str, str]) -> str:
    """More tokens than one: some were guessed before."""
    return names[row.request_id] if row.tokens == 1 else f"{names[row.request_id]}:{row.tokens}"


def _names(step: EngineStep, short: bool) -> dict[str, str]:
    ids = dict.fromkeys(
        [row.request_id for row in step.rows] + list(step.preempted) + [each.request_id for each in step.finished]
    )
    if not short:
        return {name: literal(name) for name in ids}
    return {name: literal(cut) for name, cut in zip(ids, shortened(list(ids)), strict=True)}


def shortened(ids: Sequence[str]) -> list[str]:
    """Each id cut to the same length, the least at which all differ; a choice's ``#1`` stays."""
    parts = [name.partition("#") for name in ids]
    stems = {stem for stem, _, _ in parts}
    longest = max(map(len, stems), default=0)
    size = next(
        (size for size in range(_SHORTEST, longest) if len({stem[:size] for stem in stems}) == len(stems)), longest
    )
    return [f"{stem[:size]}{mark}{choice}" for stem, mark, choice in parts]


def _columns(values: Iterable[str]) -> str:
    *figures_, last = values
    cells = [pad(value, cells, right=True) for value, cells in zip(figures_, _WIDTHS, strict=True)]
    return "  ".join((*cells, last))
