"""Every key and every command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from rich.style import Style
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget

from console.tui.command import COMMANDS
from console.tui.deck import deck_of
from console.tui.live.board import View
from console.tui.render.look import Look
from console.tui.render.spans import Spans
from console.tui.screens.deck_modal import DeckModal
from console.tui.widgets.lines import Lines

KEYS: tuple[tuple[str, str], ...] = (
    ("j k ↑ ↓ g G", "move; page with PgUp PgDn"),
    ("Enter", "open what is under the cursor"),
    ("Esc  -", "back; the view before this one"),
    ("Space  *", "mark; mark all that is shown: orders go to all that is marked"),
    ("/", "show only what contains this text; Esc takes it off"),
    (":", "a command, Tab completes it"),
    ("p", "freeze the view; collecting goes on"),
    ("Tab", "the other pane"),
    ("e", "from a worker to its engine: steps and KV blocks"),
    ("w", "from a request to why it went where it went"),
    ("ctrl-d", "drain: no new requests, then wait until nothing runs"),
    ("ctrl-o", "cordon: no new requests"),
    ("ctrl-u", "uncordon: new requests again"),
    ("ctrl-s", "scale the pool"),
    ("ctrl-x", "cancel the request"),
)

ENGINE_KEYS: tuple[tuple[str, str], ...] = (
    ("Space", "pause; collecting goes on. End: live again"),
    ("← → h l", "a step back or forth; with Shift ten. Home: the oldest"),
    ("g", "go to the step with this number"),
    ("s", "sort by joined, blocks, context, priority"),
    ("t", "trace off, one step in ten, every step"),
)


_ON_A_LINE = 4


class HelpScreen(DeckModal):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark,q,enter", "leave", show=False),
        Binding("down,j", "by(1)", show=False),
        Binding("up,k", "by(-1)", show=False),
        Binding("pagedown,space", "by(10)", show=False),
        Binding("pageup", "by(-10)", show=False),
    ]

    def body(self) -> Iterator[Widget]:
        with VerticalScroll(can_focus=False):
            yield Lines(name="help")

    def show(self, view: View) -> None:
        deck = deck_of(self)
        lines = help_lines(deck.look, deck.leaving, deck.own_keys)
        page = self.query_one("#help", Lines)
        if page.styles.height is None or page.styles.height.value != len(lines):
            page.styles.height = len(lines)
        page.put(lines)

    def action_by(self, by: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)


def help_lines(look: Look, leaving: str, own: tuple[str, Sequence[tuple[str, str]]] = ("", ())) -> list[Spans]:
    palette, glyphs = look.palette, look.glyphs
    about, own_keys = own
    lines: list[Spans] = []
    if own_keys:
        lines += [[(about, palette.title)]]
        lines += [[(f"  {key:<14}", palette.key), (what, palette.text)] for key, what in own_keys]
        lines += [[]]
    lines += [[("keys", palette.title)]]
    lines += [[(f"  {key:<14}", palette.key), (what, palette.text)] for key, what in (*KEYS, ("q  ctrl-c", leaving))]
    lines += [[], [("an engine's steps", palette.title)]]
    lines += [[(f"  {key:<14}", palette.key), (what, palette.text)] for key, what in ENGINE_KEYS]
    lines += [[], [("commands", palette.title)]]
    for name, spec in COMMANDS.items():
        typed = f":{name} {spec.argument}".rstrip()
        lines.append([(f"  {typed:<14}", palette.key), (f" {spec.help}", palette.text)])
    states = (
        (glyphs.ready, "ready", palette.good),
        (glyphs.starting, "starting", palette.accent),
        (glyphs.cordoned, "cordoned", palette.watch),
        (glyphs.draining, "draining", palette.watch),
        (glyphs.drained, "drained", palette.watch),
        (glyphs.lost, "lost", palette.bad),
        (glyphs.failed, "failed", palette.bad),
        (glyphs.stopping, "stopping", palette.unknown),
    )
    requests = (
        (glyphs.queued, "queued", palette.watch),
        (glyphs.sent, "sent", palette.accent),
        (glyphs.decoding, "decoding", palette.good),
        (glyphs.done, "finished", palette.dim),
        (glyphs.cancelled, "cancelled", palette.watch),
        (glyphs.failed, "failed", palette.bad),
    )
    keys = (
        (glyphs.ready, "active", palette.good),
        (glyphs.stopping, "expired", palette.watch),
        (glyphs.failed, "revoked", palette.bad),
    )
    lines += [[], [("shapes", palette.title)]]
    lines += _shapes("workers", states, look) + _shapes("requests", requests, look)
    lines.append([(f"  {'':<14}{glyphs.sent} at its worker, which has told no token of it yet", palette.dim)])
    lines += _shapes("keys", keys, look)
    bands = (
        (glyphs.watch, "75 %", palette.watch),
        (glyphs.busy, "80 %", palette.busy),
        (glyphs.full, "90 %", palette.bad),
    )
    lines.append([("  KV cache from ", palette.dim), *((f"{glyph} {word}  ", style) for glyph, word, style in bands)])
    used, free = _block_shapes(look)
    lines += [[("  KV blocks     ", palette.dim), *used], [("                ", palette.dim), *free]]
    lines.append([("  – is a number that nobody knows now", palette.dim)])
    return lines


def _shapes(what: str, shapes: Sequence[tuple[str, str, Style]], look: Look) -> list[Spans]:
    """What each shape says of one kind of thing, as many on a line as a small screen holds."""
    lines: list[Spans] = []
    for start in range(0, len(shapes), _ON_A_LINE):
        head = what if not start else ""
        cells = [(f"{glyph} {word:<10}", style) for glyph, word, style in shapes[start : start + _ON_A_LINE]]
        lines.append([(f"  {head:<14}", look.palette.dim), *cells])
    return lines


def _block_shapes(look: Look) -> tuple[Spans, Spans]:
    palette, glyphs = look.palette, look.glyphs
    used = [
        ("a", palette.hues[0].field),
        (" of request a  ", palette.text),
        ("A", palette.hues[0].field),
        (" shared with others", palette.text),
    ]
    return used, [(f"{glyphs.cached_free} free, with content  {glyphs.free} free", palette.text)]
