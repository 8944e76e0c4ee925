"""A lesson: what is said on one side, the platform that it is about, live, on the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widget import Widget
from textual.widgets import Input

from console.readiness import Readiness
from console.tui.deck import deck_of
from console.tui.learn.desk import Doing, desk_of
from console.tui.learn.live_pane import LivePane
from console.tui.learn.messages import Outcome
from console.tui.learn.pin import TOLD, pinned
from console.tui.learn.reset_screen import ResetScreen
from console.tui.learn.standing import Standing
from console.tui.learn.telling import VIEW_KEYS, place, words_keys
from console.tui.learn.words_pane import WIDE_FROM, WordsPane
from console.tui.live.board import View
from console.tui.messages import Stepped
from console.tui.order import Verb
from console.tui.render.spans import Span, apart
from console.tui.route import Route
from console.tui.screens.deck_screen import DeckScreen
from console.tui.widgets.footer import Footer
from console.tui.widgets.header import Header, freshness
from console.tui.widgets.lines import Lines
from console.tui.widgets.step_grid import StepGrid
from console.tui.widgets.table import Table
from control_plane.contracts.errors import InferDeckError
from control_plane.contracts.fleet import Snapshot
from lessons.actions import POOL
from lessons.answers import Misread
from lessons.model import Check, Do, Observe, Predict, Show
from lessons.player import NotYet, Player, Reply


class LessonScreen(DeckScreen):
    order_hints = (("^o", "cordon"), ("^u", "uncordon"), ("^x", "cancel"), ("^s", "scale"))
    DEFAULT_CSS = """
    LessonScreen #dots { background: $panel; }
    LessonScreen #split { height: 1fr; layout: vertical; }
    LessonScreen #words { padding: 0 1; }
    LessonScreen #live-title { background: $panel; }
    LessonScreen #split.-wide { layout: horizontal; }
    LessonScreen #split.-wide #words { height: 1fr; padding: 1 2 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right", "on", show=False),
        Binding("left", "back_one", show=False),
        Binding("enter", "enter", show=False),
        Binding("down", "choose(1)", show=False),
        Binding("up", "choose(-1)", show=False),
        Binding("h", "hint", show=False),
        Binding("s", "skip", show=False),
        Binding("r", "reset", show=False),
        Binding("v", "next_view", show=False),
        Binding("a", "running_only", show=False),
        Binding("tab,shift+tab", "other", show=False),
    ]

    def __init__(self, route: Route, player: Player) -> None:
        super().__init__(route)
        self.player = player
        self.standing = Standing(player)
        self._pinned_for = -1

    def body(self) -> Iterator[Widget]:
        yield Lines(name="dots")
        with Container(id="split"):
            yield WordsPane()
            yield LivePane(self.player.lesson.sandbox.replicas)

    @property
    def words(self) -> WordsPane:
        return self.query_one(WordsPane)

    @property
    def live(self) -> LivePane:
        return self.query_one(LivePane)

    @property
    def looks(self) -> bool:
        """Whether the keys are the live view's."""
        return self.focused is not None and self.live in self.focused.ancestors

    @property
    def step_target(self) -> str:
        shown = self.is_mounted and self.standing.started and self.live.pin.view == "engine"
        return self.live.pin.of if shown else ""

    def on_screen_resume(self) -> None:
        self._turn()

    # What the desk tells.

    def starting(self) -> None:
        """A platform is on its way."""
        self.standing = Standing(self.player, since=deck_of(self).live().now_mono)
        if self.is_mounted:
            self._watch()
        self._repaint()

    def readying(self, readiness: Readiness) -> None:
        self.standing.readiness = readiness
        self._repaint()

    def began(self, found: Snapshot | None) -> None:
        """``found``: the platform as the lesson found it."""
        self.standing.started, self.standing.busy = True, False
        self.live.begin(found)
        self.standing.arrive()
        self._turn()
        self._tell()
        self._repaint()

    def came(self, outcome: Outcome) -> None:
        """What was asked for has been done."""
        standing = self.standing
        standing.busy, standing.doing = False, ""
        if isinstance(outcome, Reply):
            standing.settle(outcome)
            if outcome.view:
                self.live.told = outcome.view
        elif outcome is False:
            desk_of(self).finish()
            return
        else:
            standing.arrive()
            self._turn()
            self._tell()
        self._repaint()

    def failed(self, error: InferDeckError, *, starting: bool) -> None:
        standing = self.standing
        standing.busy, standing.doing = False, ""
        if starting:
            standing.trouble = error
        elif isinstance(error, NotYet | Misread):
            standing.note = error.message
        else:
            deck_of(self).tell(f"{error.message}{'; ' + error.hint if error.hint else ''}", "error")
        self._repaint()

    def stepped(self, news: Stepped) -> None:
        if self.live.take(news):
            self._repaint()

    # Drawing.

    def show(self, view: View) -> None:
        if self.standing.started and self.live.asks(view):
            deck_of(self).ask_blocks(self.live.pin.of)
        self.query_one("#dots", Lines).put([self._progress(view)])
        self.query_one("#split").set_class(self.room.width >= WIDE_FROM, "-wide")
        self.words.show(self.standing, desk_of(self).elsewhere, view.now_mono, self.room)
        self.live.show(view)

    def _progress(self, view: View) -> list[Span]:
        look = deck_of(self).look
        state = freshness(view, look, wide=False) if self.standing.started else []
        return apart(place(self.standing, look), state, self.room.width)

    def paint_frame(self, view: View) -> None:
        look, lesson = deck_of(self).look, self.player.lesson
        label = self.player.label or lesson.sandbox.runs_on
        title: list[Span] = [(f" {lesson.number} ", look.palette.accent), (lesson.title, look.palette.title)]
        if self.needle:
            title.append((f"  /{self.needle}", look.palette.accent))
        header = self.query_one(Header)
        header.put([apart(title, [(f"  {label} ", look.palette.watch)], header.size.width)])
        keys = (VIEW_KEYS[0], *self.order_hints, *VIEW_KEYS[1:]) if self.looks else words_keys(self.standing)
        self.query_one(Footer).show((*keys, ("?", "help")))

    # Keys.

    def on_key(self, event: events.Key) -> None:
        """Answers are typed wherever the keys are."""
        standing, draft = self.standing, self.standing.draft
        if draft is None or not standing.answers or isinstance(self.focused, Input):
            return
        if event.key == "backspace":
            draft.erase()
        elif event.character is None or not draft.press(event.character):
            return
        event.stop()
        event.prevent_default()
        standing.note = ""
        self._repaint()

    def on_paste(self, event: events.Paste) -> None:
        draft = self.standing.draft
        if draft is not None and self.standing.answers:
            draft.paste(event.text)
            self._repaint()

    def action_choose(self, by: int) -> None:
        if self.standing.draft is not None and self.standing.answers:
            self.standing.draft.move(by)
            self._repaint()

    def action_enter(self) -> None:
        standing = self.standing
        if standing.trouble is not None:
            desk_of(self).begin()
        elif standing.busy or self.words.longer:
            self.action_on()
        elif standing.answers and (standing.waits or self._rewritten()):
            self._commit()
        elif standing.acts:
            if isinstance(self.player.step, Do | Observe):
                self.live.count_anew(deck_of(self).live())
            self._do(self.player.act, "it runs:" if self.player.step.kind == "observe" else "being done:")
        else:
            self.action_on()

    def _rewritten(self) -> bool:
        """Whether another answer than the committed one is there."""
        draft = self.standing.draft
        return draft is not None and draft.text not in ("", self.player.here.answer)

    def _commit(self) -> None:
        standing, draft = self.standing, self.standing.draft
        assert draft is not None
        if not draft.text:
            standing.note = "type a number first" if draft.by_number else "choose one first"
            return self._repaint()
        with self._telling():
            reply = self.player.commit(draft.text)
            if isinstance(self.player.step, Predict):
                return self._forward()
            standing.settle(reply)
        return self._repaint()

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """What the player refuses, or cannot keep, is told."""
        try:
            yield
        except InferDeckError as error:
            self.failed(error, starting=False)

    def action_on(self) -> None:
        standing = self.standing
        if not standing.started:
            return None
        if standing.busy:
            standing.note = "it is not over yet" if standing.doing else ""
        elif self.words.longer:
            self.words.page_on(standing)
        elif standing.more:
            standing.sheet, standing.top = standing.sheet + 1, 0
        else:
            return self._forward()
        return self._repaint()

    def _forward(self) -> None:
        self._do(self.player.forward, "")

    def _do(self, doing: Doing, words: str) -> None:
        standing = self.standing
        standing.busy, standing.doing, standing.note = True, words, ""
        standing.reply, standing.since = Reply(True), deck_of(self).live().now_mono
        desk_of(self).work(doing)
        self._repaint()

    def action_back_one(self) -> None:
        standing = self.standing
        if not standing.started or standing.busy:
            return
        if standing.top:
            self.words.page_back(standing)
        elif standing.sheet:
            standing.sheet = min(standing.sheet, len(standing.sheets) - 1) - 1
        else:
            with self._telling():
                if self.player.back():
                    standing.arrive(at_end=True)
                    self._turn()
                    self._tell()
        self._repaint()

    def action_hint(self) -> None:
        standing = self.standing
        if not standing.started or standing.busy or not standing.waits:
            return
        with self._telling():
            standing.note = "" if self.player.hint() else "there is no other hint"
            standing.came = standing.fresh = True
        self._repaint()

    def action_skip(self) -> None:
        if self.standing.started and not self.standing.busy and self.standing.waits:
            self._do(self._skipped, "skipped, and done for you:" if self.standing.acts else "")

    async def _skipped(self) -> Outcome:
        """What was skipped is told on a sheet; where nothing is to be told, the lesson goes on."""
        reply = await self.player.skip()
        return reply if len(self.standing.sheets) > 1 else await self.player.forward()

    def action_reset(self) -> None:
        if self.standing.started and not self.standing.busy:
            self.app.push_screen(ResetScreen(self.player, desk_of(self).anew))

    def action_next_view(self) -> None:
        looked = self.looks
        self.live.next_view(f"{POOL}-1")
        self._watch()
        if looked:
            self.set_focus(self.live.keys_to)
        self._repaint()

    def action_running_only(self) -> None:
        self.live.running_only = not self.live.running_only
        self._repaint()

    def action_other(self) -> None:
        self.set_focus(None if self.looks else self.live.keys_to)
        self._repaint()

    def action_back(self) -> None:
        if not self.looks or self.needle:
            super().action_back()
            return
        if not self.live.unmark():
            self.set_focus(None)
        self._repaint()

    def focus_body(self) -> None:
        self.set_focus(self.live.keys_to if self.needle else None)

    def filter(self, needle: str) -> None:
        self.live.filter(needle)

    def targets(self, verb: Verb) -> Sequence[str]:
        return self.live.targets(verb)

    def on_table_chosen(self, event: Table.Chosen) -> None:
        if event.table.id in ("workers", "requests"):
            deck_of(self).go(Route(event.table.id.removesuffix("s"), event.row_id))

    def on_step_grid_chosen(self, event: StepGrid.Chosen) -> None:
        deck_of(self).go(Route("request", event.request_id))

    def _turn(self) -> None:
        """The live view to what this step is about; another one that was turned to stays as long as the step does."""
        if self.player.index != self._pinned_for:
            self._pinned_for = self.player.index
            self.live.turn(pinned(self.player.lesson, self.player.index))
            # What can be repaired is what still runs.
            self.live.running_only = isinstance(self.player.step, Check)
        self._watch()

    def _tell(self) -> None:
        """Ask for the lines of a view that is told."""
        if isinstance(self.player.step, Show) and self.live.pin.view == TOLD:
            self.live.told = ()
            self._do(self.player.show, "")

    def _watch(self) -> None:
        deck_of(self).watch_steps(self.step_target, self)
