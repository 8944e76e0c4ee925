"""What every full screen has in common: the frame, the keys, the prompt, the filter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.screen import Screen
from textual.widget import Widget

from console.tui.command import completions
from console.tui.deck import deck_of
from console.tui.live.board import View
from console.tui.messages import Decided, Explained, KeysRead, LogRead, PolicyRead, Stepped, Timed
from console.tui.notice import Notice
from console.tui.order import Verb
from console.tui.route import Route
from console.tui.widgets.body import Body
from console.tui.widgets.footer import Footer, Hint
from console.tui.widgets.header import Header
from console.tui.widgets.notices import NoticeBar
from console.tui.widgets.prompt import Prompt
from console.tui.widgets.replay_bar import ReplayBar
from console.tui.widgets.too_small import TooSmall, too_small

COMMON_HINTS: tuple[Hint, ...] = (("/", "filter"), (":", "command"), ("p", "pause"), ("?", "help"))
REPLAY_HINTS: tuple[Hint, ...] = (("p", "play"), (", .", "10 s"), ("n N", "event"), ("< >", "speed"), ("?", "help"))


class DeckScreen(Screen[None]):
    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("colon", "prompt(':')", show=False),
        Binding("slash", "prompt('/')", show=False),
        Binding("question_mark,f1", "help", show=False),
        Binding("escape", "back", show=False),
        Binding("minus", "previous", show=False),
        Binding("p", "pause", show=False),
        Binding("q", "quit", show=False),
        Binding("ctrl+d", "order('drain')", show=False),
        Binding("ctrl+o", "order('cordon')", show=False),
        Binding("ctrl+u", "order('uncordon')", show=False),
        Binding("ctrl+s", "order('scale')", show=False),
        Binding("ctrl+x", "order('cancel')", show=False),
    ]

    route: Route
    hints: tuple[Hint, ...] = ()
    order_hints: tuple[Hint, ...] = ()
    late_hints: tuple[Hint, ...] = ()
    """Those that a narrow screen can do without first."""

    def __init__(self, route: Route) -> None:
        super().__init__()
        self.route = route
        self.needle = ""

    def compose(self) -> ComposeResult:
        yield Header()
        with Body():
            yield from self.body()
        yield NoticeBar()
        yield ReplayBar()
        yield Prompt(lambda line: completions(line, deck_of(self).live().snapshot))
        yield Footer()
        yield TooSmall()

    def body(self) -> Iterator[Widget]:
        """The widgets between header and footer."""
        raise NotImplementedError

    def show(self, view: View) -> None:
        """Paint the body."""
        raise NotImplementedError

    def filter(self, needle: str) -> None:
        """Show only what contains this text."""

    def targets(self, verb: Verb) -> Sequence[str]:
        """The ids that an order with this verb would be about here."""
        return ()

    def read(self, piece: LogRead) -> None:
        """More of the log that was asked for."""

    def timed(self, news: Timed) -> None:
        """Where the time of a request went, which was asked for."""

    def explained(self, news: Explained) -> None:
        """Why a request went where it went, which was asked for."""

    def decided(self, news: Decided) -> None:
        """New decisions, which were asked for."""

    def stepped(self, news: Stepped) -> None:
        """More of the engine's steps that were asked for."""

    def keys_read(self, news: KeysRead) -> None:
        """Callers' keys, which were asked for."""

    def policy_read(self, news: PolicyRead) -> None:
        """The policy, which was asked for."""

    @property
    def trail(self) -> str:
        crumb = f" {deck_of(self).look.glyphs.crumb} "
        return crumb.join(part for part in (self.route.view, self.route.id) if part)

    def paint(self, view: View, notices: Sequence[Notice]) -> None:
        if not self.is_mounted or self.has_class("-too-small"):
            return
        self.query_one(NoticeBar).show(notices)
        self.paint_frame(view)
        self.show(view)

    def paint_frame(self, view: View) -> None:
        """Header and footer, which age without any news."""
        filtered = f"  /{self.needle}" if self.needle else ""
        self.query_one(Header).show(view, self.trail + filtered)
        orders = () if deck_of(self).readonly else self.order_hints
        self.query_one(ReplayBar).show(view)
        common = COMMON_HINTS if view.replay is None else REPLAY_HINTS
        self.query_one(Footer).show((*self.hints, *orders, *self.late_hints, *common))

    def on_mount(self) -> None:
        self._resized()

    def on_resize(self, event: events.Resize) -> None:
        self._resized()

    @property
    def log_target(self) -> str:
        """The log that is read while this screen is on top."""
        return ""

    @property
    def step_target(self) -> str:
        """The worker whose engine is watched while this screen is on top."""
        return ""

    @property
    def wants_keys(self) -> bool:
        """Whether callers' keys are asked for while this screen is on top."""
        return False

    @property
    def wants_decisions(self) -> bool:
        """Whether decisions are followed while this screen is on top."""
        return False

    def on_body_resized(self) -> None:
        self._repaint()

    @property
    def room(self) -> Size:
        """What the body has."""
        return self.query_one(Body).size

    def on_screen_resume(self) -> None:
        deck_of(self).read_log(self.log_target, self)
        deck_of(self).watch_steps(self.step_target, self)
        deck_of(self).read_keys(self if self.wants_keys else None)
        deck_of(self).read_decisions(self if self.wants_decisions else None)
        self.call_after_refresh(self._repaint)

    def _resized(self) -> None:
        small = too_small(*self.app.size)
        self.set_class(small, "-too-small")
        if small:
            self.query_one(TooSmall).refresh()
        self.call_after_refresh(self._repaint)

    def _repaint(self) -> None:
        deck = deck_of(self)
        if self.is_mounted and self.is_current and self.app.is_running:
            self.paint(deck.view(), deck.notices())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Nothing that acts on what cannot be seen."""
        return not (self.has_class("-too-small") and action in ("order", "prompt", "help"))

    def action_prompt(self, sigil: str) -> None:
        self.query_one(Footer).display = False
        self.query_one(Prompt).open(sigil, self.needle if sigil == "/" else "")

    def on_prompt_left(self) -> None:
        self.query_one(Footer).display = True
        self.focus_body()

    def on_prompt_filtered(self, event: Prompt.Filtered) -> None:
        self.needle = event.needle
        self.filter(event.needle)
        self.paint_frame(deck_of(self).view())

    def on_prompt_entered(self, event: Prompt.Entered) -> None:
        deck_of(self).command(event.line)

    def focus_body(self) -> None:
        """Give the keys back to what is shown."""

    def action_help(self) -> None:
        deck_of(self).command("help")

    def action_back(self) -> None:
        """One thing at a time: the filter, then the marks, then the view."""
        if self.needle:
            self.needle = ""
            self.filter("")
            self._repaint()
        elif not self.unmark():
            deck_of(self).back()

    def unmark(self) -> bool:
        """Take all marks off; whether there were any."""
        return False

    def action_previous(self) -> None:
        deck_of(self).previous()

    def action_pause(self) -> None:
        deck_of(self).pause()

    def action_quit(self) -> None:
        deck_of(self).command("quit")

    def action_order(self, verb: str) -> None:
        deck_of(self).order(Verb(verb), self.targets(Verb(verb)))
