"""Where requests were sent lately, and why."""

from __future__ import annotations

from console.decision_notes import why
from console.tui.render.figures import UNKNOWN, clock, duration, known
from console.tui.render.spans import Spans, middle
from console.tui.widgets.table import Column, Context, Table
from control_plane.contracts.decision import DecisionView


def decision_table() -> Table[DecisionView]:
    return Table(COLUMNS, decision_id, _haystack, empty="no decision yet", can_mark=False, name="decisions")


def decision_id(decision: DecisionView) -> str:
    return f"{decision.router_id}/{decision.number}"


def _haystack(decision: DecisionView) -> str:
    rejected = (f"{each.worker_id} {each.reason}" for each in decision.rejected)
    candidates = (each.worker_id for each in decision.candidates)
    return " ".join((decision.request_id, decision.model, decision.profile, decision.router_id, *candidates, *rejected))


def _text(text: str, at: Context) -> Spans:
    return [(text or UNKNOWN, at.look.palette.text if text else at.look.palette.unknown)]


def _where(decision: DecisionView, at: Context) -> Spans:
    palette, glyphs = at.look.palette, at.look.glyphs
    if not decision.chosen:
        return [(f"{glyphs.queued} queue", palette.watch)]
    return [(middle(decision.chosen, at.width, glyphs.ellipsis), palette.title)]


def _total(decision: DecisionView, at: Context) -> Spans:
    picked = decision.picked
    return _text(f"{picked.total:.3f}" if picked is not None else "", at)


def _left_out(decision: DecisionView, at: Context) -> Spans:
    count = sum(decision.rejected_by.values())
    return [(str(count), at.look.palette.watch if count else at.look.palette.dim)]


def _attempt(decision: DecisionView, at: Context) -> Spans:
    return [(str(decision.attempt), at.look.palette.watch if decision.attempt > 1 else at.look.palette.dim)]


COLUMNS: tuple[Column[DecisionView], ...] = (
    Column("time", 8, lambda each, at: [(clock(each.at_unix), at.look.palette.dim)]),
    Column("request", 13, lambda each, at: _text(each.request_id, at), grow=1),
    Column("try", 3, _attempt, right=True),
    Column("went to", 10, _where, whole=lambda each: each.chosen),
    Column("total", 5, _total, rank=1, right=True),
    Column("out", 3, _left_out, rank=2, right=True),
    Column("waited", 6, lambda each, at: _text(duration(known(each.waited_s)), at), rank=4, right=True),
    Column("profile", 11, lambda each, at: _text(each.profile, at), rank=3),
    Column("model", 12, lambda each, at: _text(each.model, at), rank=6, grow=1),
    Column("router", 6, lambda each, at: _text(each.router_id, at), rank=7),
    Column("why there", 20, lambda each, at: [(why(each), at.look.palette.text)], rank=5, grow=4),
)
