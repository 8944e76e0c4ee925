"""A request's decisions as lines: a table for each look for an endpoint, then why not each of the others."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from console import figures
from console.decision_notes import rule_words, waited_words, why, why_not, why_rejected
from console.hold_notes import hold_words
from console.plain.data import plain
from console.plain.table import Column, table
from console.text import literal, wrap
from control_plane.contracts.decision import CandidateView, DecisionView, MovedView, RescoredView
from control_plane.contracts.hold import Hold

FEW: Final = 12
"""Endpoints of each kind that are listed, unless all are wanted."""


def title(decision: DecisionView) -> str:
    goes_on = f" · goes on after {figures.plural(decision.continued_tokens, 'token')}" * bool(decision.continued_tokens)
    at = time.strftime("%H:%M:%S", time.localtime(decision.at_unix))
    where = f"→ {decision.chosen}" if decision.chosen else "→ the queue"
    return f"attempt {decision.attempt} {where} · {at} · {decision.model} · router {decision.router_id}{goes_on}"


def decision_lines(decision: DecisionView, room: int | None, *, everything: bool = False) -> Iterator[str]:
    """Literal lines, none wider than ``room`` cells."""
    most = len(decision.candidates) + len(decision.rejected) if everything else FEW
    waited = waited_words(decision)
    yield from _wrapped(title(decision), room)
    yield from _wrapped("; ".join(part for part in (why(decision), waited) if part), room)
    if decision.candidates:
        yield from _wrapped(rule_words(decision), room)
        shown = _first(decision, most)
        yield from table(shown, _columns(decision), room).lines
    for candidate in decision.candidates[:most]:
        if words := why_not(decision, candidate):
            yield from _wrapped(f"not {candidate.worker_id}: {words}", room)
    for rejected in decision.rejected[:most]:
        yield from _wrapped(f"not {rejected.worker_id}: {why_rejected(rejected)}", room)
    if rest := _rest(decision, most):
        yield from _wrapped(rest, room)


def hold_lines(holds: Sequence[Hold], room: int | None) -> Iterator[str]:
    """A request's stays in the queue; literal lines, none wider than ``room`` cells."""
    for hold in holds:
        yield from _wrapped(f"queue · {hold_words(hold)}", room)


def short_lines(decision: DecisionView) -> Iterator[str]:
    """The decision in a line or two, for a page about something else."""
    waited = waited_words(decision)
    yield f"{decision.chosen or 'nowhere'}: {why(decision)}" + (f"; {waited}" if waited else "")


def decision_data(decision: DecisionView) -> dict[str, Any]:
    """As JSON data, with the words."""
    values: dict[str, Any] = plain(decision)
    values["why"] = why(decision)
    for candidate, entry in zip(decision.candidates, values["candidates"], strict=True):
        entry["scores"] = dict(zip(decision.scorers, candidate.scores, strict=True))
        entry["why_not"] = why_not(decision, candidate)
    return values


def _first(decision: DecisionView, most: int) -> Sequence[CandidateView]:
    """The best ones, and who was picked."""
    picked = decision.picked
    return [each for index, each in enumerate(decision.candidates) if index < most or each is picked]


def _columns(decision: DecisionView) -> Sequence[Column[CandidateView]]:
    def score(index: int) -> Column[CandidateView]:
        name, weight = decision.scorers[index], decision.weights[index]
        return Column(f"{name.upper()} ×{weight:g}", lambda each: f"{each.scores[index]:.3f}", right=True, keep=6)

    def sample(each: CandidateView) -> str:
        if each.sample_age_s is None:
            return "never"
        return figures.seconds(each.sample_age_s) + (" (old)" if each.stale else "")

    def style(each: CandidateView) -> str | None:
        return "good" if each.worker_id == decision.chosen else None

    columns: list[Column[CandidateView]] = [
        Column("", lambda each: "▶" if each.worker_id == decision.chosen else "", keep=8, style=style),
        Column("ENDPOINT", lambda each: each.worker_id, keep=9, style=style),
        *(score(index) for index in range(len(decision.scorers))),
        Column("TOTAL", lambda each: f"{each.total:.3f}", right=True, keep=7),
    ]
    if decision.by.picker == "softmax":
        columns.append(Column("CHANCE", lambda each: figures.percent(each.chance), right=True, keep=5))
    return [
        *columns,
        Column("IN FLIGHT", lambda each: _number(each, "requests"), right=True, keep=5),
        Column("TOKENS", lambda each: _number(each, "tokens"), right=True, keep=3),
        Column("KV", lambda each: _percent(each, "kv_usage"), right=True, keep=5),
        Column("WAITING", lambda each: _number(each, "waiting", told=True), right=True, keep=2),
        Column("SAMPLE", sample, right=True, keep=4),
    ]


def _number(candidate: CandidateView, name: str, *, told: bool = False) -> str:
    """``told``: by the worker, so that it is unknown where it never was."""
    value = candidate.inputs.get(name)
    unknown = value is None or (told and candidate.sample_age_s is None)
    return figures.NONE if unknown or value is None else f"{value:,.0f}"


def _percent(candidate: CandidateView, name: str) -> str:
    value = candidate.inputs.get(name)
    return figures.percent(None if candidate.sample_age_s is None else value)


def _rest(decision: DecisionView, most: int) -> str:
    candidates = decision.more_candidates + max(0, len(decision.candidates) - most)
    listed = len(decision.rejected[:most])
    rejected = sum(decision.rejected_by.values()) - listed
    parts = [f"{candidates} more that could have been picked"] if candidates else []
    if rejected > 0:
        by = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in decision.rejected_by.items())
        parts.append(f"{rejected} more that could not (in all: {by})")
    return "and " + ", and ".join(parts) if parts else ""


def _wrapped(text: str, room: int | None) -> list[str]:
    return [literal(text)] if room is None else wrap(literal(text), room)


def moved_columns(*, drawn: bool) -> Sequence[Column[MovedView]]:
    def at(moved: MovedView) -> str:
        return time.strftime("%H:%M:%S", time.localtime(moved.at_unix))

    columns: list[Column[MovedView]] = [
        Column("REQUEST", lambda moved: moved.request_id, keep=9),
        Column("ATTEMPT", lambda moved: str(moved.attempt), right=True, keep=2),
        Column("AT", at, keep=3),
        Column("MODEL", lambda moved: moved.model, keep=1),
        Column("WAS", lambda moved: moved.was, keep=8),
        Column("WOULD", lambda moved: moved.would, keep=7),
        Column("TOTALS", lambda moved: f"{moved.was_total:.3f} → {moved.would_total:.3f}", keep=5),
    ]
    if drawn:
        columns.append(Column("CHANCE", lambda moved: figures.percent(moved.chance), right=True, keep=4))
    return columns


def share_columns() -> Sequence[Column[tuple[str, float, float, float, float]]]:
    """Of rows of a worker with requests and tokens, as they were and again."""
    return [
        Column("WORKER", lambda row: row[0], keep=9),
        Column("REQUESTS", lambda row: f"{row[1]:,.0f}", right=True, keep=8),
        Column("AGAIN", lambda row: _expected(row[2]), right=True, keep=7),
        Column("TOKENS", lambda row: f"{row[3]:,.0f}", right=True, keep=6),
        Column("AGAIN", lambda row: f"{row[4]:,.0f}", right=True, keep=5),
    ]


def shares(views: Sequence[RescoredView]) -> list[tuple[str, float, float, float, float]]:
    """All routers together: worker, requests, requests again, tokens, tokens again."""
    sums: dict[str, list[float]] = {}
    for view in views:
        for name, share in view.workers.items():
            of = sums.setdefault(name, [0.0] * 4)
            for index, value in enumerate((share.requests, share.requests_again, share.tokens, share.tokens_again)):
                of[index] += value
    return [(name, *values) for name, values in sorted(sums.items())]  # type: ignore[misc]  # four of them


def _expected(value: float) -> str:
    return f"{value:,.0f}" if abs(value - round(value)) < 0.005 else f"{value:,.1f}"
