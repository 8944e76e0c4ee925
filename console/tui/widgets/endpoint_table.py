"""The endpoints of one request's decisions: what each scored, or why it could not be picked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from console.decision_notes import why_not, why_rejected
from console.tui.render.figures import UNKNOWN, count, duration, percent
from console.tui.render.spans import Spans, middle
from console.tui.widgets.decision_table import decision_id
from console.tui.widgets.table import Column, Context, Table
from control_plane.contracts.decision import CandidateView, DecisionView, RejectedView
from control_plane.contracts.routing import SCORERS


@dataclass(frozen=True, slots=True)
class EndpointRow:
    """An endpoint in a decision: one that could have been picked, or one that could not."""

    decision: DecisionView
    candidate: CandidateView | None = None
    rejected: RejectedView | None = None

    @property
    def worker_id(self) -> str:
        return self.candidate.worker_id if self.candidate else self.rejected.worker_id if self.rejected else ""

    @property
    def picked(self) -> bool:
        return self.candidate is not None and self.candidate is self.decision.picked

    @property
    def words(self) -> str:
        if self.candidate is not None:
            return "went here" if self.picked else why_not(self.decision, self.candidate)
        return why_rejected(self.rejected) if self.rejected is not None else ""


def endpoint_rows(decisions: Iterable[DecisionView]) -> Iterator[EndpointRow]:
    """The newest decision first; in each the best endpoint first, then those that could not be picked."""
    for decision in sorted(decisions, key=lambda each: (each.at_unix, each.number), reverse=True):
        yield from (EndpointRow(decision, candidate=each) for each in decision.candidates)
        yield from (EndpointRow(decision, rejected=each) for each in decision.rejected)


def row_id(row: EndpointRow) -> str:
    return f"{decision_id(row.decision)}/{row.worker_id}"


def endpoint_table() -> Table[EndpointRow]:
    return Table(columns_for(()), row_id, _haystack, empty="no endpoint", can_mark=False, name="endpoints")


def _haystack(row: EndpointRow) -> str:
    return f"{row.worker_id} {row.words}"


def _endpoint(row: EndpointRow, at: Context) -> Spans:
    palette, glyphs = at.look.palette, at.look.glyphs
    if row.rejected is not None:
        return [(f"{glyphs.failed} ", palette.bad), (middle(row.worker_id, at.width - 2, glyphs.ellipsis), palette.dim)]
    style = palette.good if row.picked else palette.text
    return [(f"{glyphs.arrow if row.picked else ' '} ", palette.good), (middle(row.worker_id, at.width - 2), style)]


def _of(tell: Callable[[CandidateView], str]) -> Callable[[EndpointRow, Context], Spans]:
    def cell(row: EndpointRow, at: Context) -> Spans:
        text = tell(row.candidate) if row.candidate is not None else UNKNOWN
        return [(text, at.look.palette.unknown if text == UNKNOWN else at.look.palette.text)]

    return cell


def _score(name: str) -> Callable[[EndpointRow, Context], Spans]:
    def cell(row: EndpointRow, at: Context) -> Spans:
        decision, candidate = row.decision, row.candidate
        if candidate is None or name not in decision.scorers:
            return [(UNKNOWN, at.look.palette.unknown)]
        score = candidate.scores[decision.scorers.index(name)]
        return [(f"{score:.3f}", at.look.palette.text), (f"×{decision.by.weights[name]:g}", at.look.palette.dim)]

    return cell


def _input(name: str, shown: Callable[[float], str], *, told: bool = False) -> Callable[[CandidateView], str]:
    """``told``: by the worker, and unknown where it has told nothing yet."""

    def tell(candidate: CandidateView) -> str:
        known = name in candidate.inputs and not (told and candidate.sample_age_s is None)
        return shown(candidate.inputs[name]) if known else UNKNOWN

    return tell


def _words(row: EndpointRow, at: Context) -> Spans:
    palette = at.look.palette
    return [(row.words, palette.good if row.picked else palette.watch if row.rejected is not None else palette.text)]


_BEFORE: tuple[Column[EndpointRow], ...] = (
    Column("try", 3, lambda row, at: [(str(row.decision.attempt), at.look.palette.dim)], rank=2, right=True),
    Column("endpoint", 12, _endpoint, whole=lambda row: f"  {row.worker_id}"),
    Column("total", 5, _of(lambda candidate: f"{candidate.total:.3f}"), right=True),
)
_SCORES: dict[str, Column[EndpointRow]] = {
    name: Column(name.replace("_", " "), 15, _score(name), rank=5 + index, right=True)
    for index, name in enumerate(SCORERS)
}
_AFTER: tuple[Column[EndpointRow], ...] = (
    Column("in flight", 9, _of(_input("requests", count)), rank=1, right=True),
    Column("KV", 4, _of(_input("kv_usage", percent, told=True)), rank=1, right=True),
    Column("sample", 6, _of(lambda candidate: duration(candidate.sample_age_s)), rank=3, right=True),
    Column("why, or why not", 24, _words, grow=1),
)


def columns_for(decisions: Iterable[DecisionView]) -> tuple[Column[EndpointRow], ...]:
    """Of the scorers only those that one of the decisions went by."""
    used = {name for decision in decisions for name in decision.scorers}
    return (*_BEFORE, *(column for name, column in _SCORES.items() if name in used), *_AFTER)
