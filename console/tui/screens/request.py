"""One request: what it is, and where its time went."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual.binding import BindingType
from textual.widget import Widget

from console.figures import money, plural
from console.hold_notes import hold_words
from console.stage_notes import stage_notes as engine_notes
from console.text import wrap
from console.tui.deck import deck_of
from console.tui.live.board import View
from console.tui.messages import Explained, Timed
from console.tui.order import Verb
from console.tui.render.bar import bar
from console.tui.render.decision import decision_lines
from console.tui.render.fields import Field, fields
from console.tui.render.figures import age, clock, count, duration, known
from console.tui.render.literal import literal
from console.tui.render.look import Look
from console.tui.render.spans import Span, Spans, greyed
from console.tui.render.states import request_state
from console.tui.render.waterfall import stage_notes, waterfall
from console.tui.route import Route
from console.tui.screens.deck_screen import DeckScreen
from console.tui.widgets.event_table import event_spans
from console.tui.widgets.lines import Lines
from control_plane.contracts.fleet import RequestView
from control_plane.contracts.timeline import Timeline

_ASK_AGAIN_S = 2.0


class RequestScreen(DeckScreen):
    hints = (("Enter", "its worker"), ("w", "why there"))
    order_hints = (("^x", "cancel"),)
    BINDINGS: ClassVar[list[BindingType]] = [("enter", "worker", ""), ("w", "why", "")]

    def __init__(self, route: Route) -> None:
        super().__init__(route)
        self._last: RequestView | None = None
        self._timeline: Timeline | None = None
        self._why = Explained(route.id)
        self._asked = -math.inf
        self._asked_why = -math.inf
        self._asked_ended = False

    def body(self) -> Iterator[Widget]:
        yield Lines(name="request")

    def show(self, view: View) -> None:
        look = deck_of(self).look
        request = view.request(self.route.id)
        self._last = request or self._last
        self._ask(view)
        self._ask_why(view)
        if self._last is None:
            lines: list[Spans] = [[], [(f"  no request {self.route.id} is known", look.palette.dim)]]
        else:
            lines = describe(self._last, view, self.room.width, look, self._timeline, self._why)
            if request is None:
                lines.insert(
                    0, [("  no longer listed by the platform: this is how it was last seen", look.palette.watch)]
                )
            if request is None or view.stale:
                lines = [greyed(line, look.palette.faint) for line in lines]
        self.query_one("#request", Lines).put(lines)

    def timed(self, news: Timed) -> None:
        if news.request_id == self.route.id:
            self._timeline = news.timeline
            self.show(deck_of(self).view())

    def explained(self, news: Explained) -> None:
        if news.request_id == self.route.id:
            self._why = news
            self.show(deck_of(self).view())

    def _ask_why(self, view: View) -> None:
        """Once, and again now and then while it runs: it may go on elsewhere. A replay tells what was known then."""
        if self._last is None or view.stale or (view.replay is None and view.paused):
            return
        again = self._last.phase.active or view.replay is not None or not self._why.decisions
        if abs(view.now_mono - self._asked_why) >= _ASK_AGAIN_S and again:
            self._asked_why = view.now_mono
            deck_of(self).ask_explanation(self.route.id)

    def _ask(self, view: View) -> None:
        """Ask for the engine's steps: now and then while the request runs, once more when it has ended."""
        if self._last is None or view.paused or view.stale or self._asked_ended:
            return
        ended = not self._last.phase.active
        if ended or view.now_mono - self._asked >= _ASK_AGAIN_S:
            self._asked, self._asked_ended = view.now_mono, ended
            deck_of(self).ask_timeline(self.route.id)

    def action_worker(self) -> None:
        if self._last is not None and self._last.worker_id:
            deck_of(self).go(Route("worker", self._last.worker_id))

    def action_why(self) -> None:
        deck_of(self).go(Route("explain", self.route.id))

    def targets(self, verb: Verb) -> Sequence[str]:
        return [self.route.id] if verb is Verb.CANCEL else []


def describe(
    request: RequestView,
    view: View,
    width: int,
    look: Look,
    timeline: Timeline | None = None,
    reasons: Explained | None = None,
) -> list[Spans]:
    """The whole page about one request; with its ``timeline``, also what its engine's steps say, and with ``reasons``
    why it is where it is."""
    palette = look.palette
    state = request_state(request, look)
    room = width - 4
    running = request.phase.active
    lasted = age(view.now_unix - request.arrival_unix) if running else duration(known(request.duration_s))
    head: list[Span] = [("  ", palette.dim), (f"{state.glyph} {state.word}", state.style)]
    head += [(f"  {request.id}", palette.title), (f"  {lasted}", palette.text)]
    facts: list[Field] = [
        ("model", request.model),
        ("worker", request.worker_id),
        ("key", request.key_id),
        ("gateway", request.gateway_id + (f" · router {request.router_id}" if request.router_id else "")),
        ("api", f"{request.api or 'call'}, {'stream' if request.stream else 'whole answer'}"),
        ("arrived", clock(request.arrival_unix)),
        ("prompt", _prompt(request)),
        ("retries", count(request.retries)),
        ("TTFT", duration(known(request.ttft_s))),
        ("ITL p50", duration(known(request.itl_p50_s))),
    ]
    if request.cost:
        facts.append(("cost", money(request.cost)))
    if request.tier:
        facts.append(("tier", request.tier))
    if request.preemptions:
        facts.append(("preempted", plural(request.preemptions, "time")))
    lines: list[Spans] = [
        head,
        [],
        *fields(facts, room, look, columns=3 if room >= 110 else 2),
        *_choice(request, room, look),
        *_holds(request, room, look),
        [],
        _output(request, room, look),
        [],
    ]
    lines += [[("  where the time went", palette.title)]]
    lines += [[("  ", palette.dim), *line] for line in waterfall(request, room, look)]
    if room < 96:
        lines += [[("  " + note, palette.dim)] for note in stage_notes(request)]
    lines += _steps(timeline, look) if timeline is not None else []
    lines += decision_lines(reasons.decisions, look, reasons.error) if reasons is not None else []
    about = [event for event in view.events if event.subject == f"request/{request.id}"]
    if about:
        lines += [[], [("  events", palette.title)], *([(" ", palette.dim), *event_spans(e, look)] for e in about[-5:])]
    return lines


def _steps(timeline: Timeline, look: Look) -> list[Spans]:
    palette = look.palette
    stages = [span for span in timeline.spans if not span.parent]
    lines: list[Spans] = [
        [(f"  {literal(stage.name):<12}", palette.text), (literal(note), palette.dim)]
        for stage in stages
        for note in engine_notes(timeline, stage)
    ]
    if timeline.missing_steps:
        lines.append([(f"  {plural(timeline.missing_steps, 'step')} of it not traced, or no longer kept", palette.dim)])
    return [[], [("  what the engine's steps say", palette.title)], *lines] if lines else []


def _choice(request: RequestView, width: int, look: Look) -> list[Spans]:
    """Why this model, where another name was asked for."""
    if request.choice is None:
        return []
    palette = look.palette
    words = wrap(f"asked for {request.choice.asked}: {request.choice.reason}", max(20, width))
    lines: list[Spans] = [[], [("  why this model", palette.title)]]
    return lines + [[(f"  {literal(line)}", palette.text)] for line in words]


def _holds(request: RequestView, width: int, look: Look) -> list[Spans]:
    """Each time that it was kept waiting, and why."""
    if not request.holds:
        return []
    palette = look.palette
    lines: list[Spans] = [[], [("  why it waited", palette.title)]]
    for hold in request.holds:
        style = palette.text if hold.over else palette.watch
        lines += [[(f"  {literal(line)}", style)] for line in wrap(hold_words(hold), max(20, width))]
    return lines


def _prompt(request: RequestView) -> str:
    if not request.prompt_tokens:
        return ""
    believed = request.predicted_cached_tokens
    belief = "" if believed is None else f", {count(believed)} believed"
    return f"{count(request.prompt_tokens)} tokens, {count(request.cached_tokens)} cached{belief}"


def _output(request: RequestView, width: int, look: Look) -> list[Span]:
    palette = look.palette
    spans: list[Span] = [("  output ", palette.dim), (count(request.output_tokens), palette.series)]
    if request.max_tokens:
        filled, empty = bar(min(1.0, request.output_tokens / request.max_tokens), min(40, width - 30), look)
        spans += [(f" of at most {count(request.max_tokens)} tokens  ", palette.dim)]
        spans += [(filled, palette.series), (empty, palette.faint)]
    return spans
