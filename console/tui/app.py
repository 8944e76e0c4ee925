"""The console's application: joins the feed, the board, the screens and the operator's orders."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from textual import events
from textual.app import App
from textual.binding import Binding, BindingType
from textual.widgets import Input
from textual.worker import Worker

from console.home import Target
from console.home_key import REPLACE, trouble
from console.tui import executor
from console.tui.collector import (
    KEYS_S,
    SILENCE_S,
    ask_blocks,
    ask_explanation,
    ask_keys,
    ask_policy,
    ask_timeline,
    collect,
    follow,
    follow_decisions,
    follow_keys,
    follow_steps,
)
from console.tui.command import BadCommand, Command, parse
from console.tui.feed import Feed, Operator
from console.tui.live.board import Board, View
from console.tui.messages import (
    Decided,
    DrainEnded,
    DrainMoved,
    Explained,
    Heard,
    KeysRead,
    Learnt,
    LinkLost,
    LogRead,
    PolicyRead,
    Previewed,
    Stepped,
    Timed,
    Told,
)
from console.tui.navigator import HOME, Navigator
from console.tui.notice import Notice, Notices, drain_words
from console.tui.order import Order, Refused, Verb, make_order, problems
from console.tui.remote import Remote
from console.tui.render.look import Look, look_for
from console.tui.route import BASES, Route
from console.tui.screens.confirm import ConfirmScreen
from console.tui.screens.deck_modal import DeckModal
from console.tui.screens.deck_screen import DeckScreen
from console.tui.screens.help import HelpScreen
from console.tui.screens.scale import ScaleScreen
from console.tui.subscription import Subscription
from console.tui.theme import THEME
from control_plane.contracts.step import TraceMode

PAINT_S = 0.5
_COMMAND = "command"
"""What was wrong with the command before is no news once there is another."""
STAYS = "leave; the platform stays, and what is cordoned too"
ENDS = "leave; the platform ends with this console"


class ConsoleApp(App[int]):
    """Shows ``feed``; orders go to ``operator``, unless ``readonly``.

    ``paint_s`` is the least time between paints; after ``silence_s`` without a snapshot the connection is made anew;
    callers' keys are asked for every ``keys_s`` seconds while they are looked at. ``leaving`` says in the help what an
    end of the console does to the platform.
    """

    TITLE = "InferDeck"
    CSS_PATH = "styles.tcss"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c,ctrl+q", "leave", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", show=False),
    ]

    def __init__(
        self,
        feed: Feed,
        operator: Operator,
        *,
        look: Look | None = None,
        readonly: bool = False,
        leaving: str = STAYS,
        paint_s: float = PAINT_S,
        silence_s: float = SILENCE_S,
        keys_s: float = KEYS_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self.look = look or find_look(self)
        self.readonly = readonly
        self.own_keys: tuple[str, tuple[tuple[str, str], ...]] = ("", ())
        self.leaving = leaving
        self.typed: list[str] = []
        self._feed, self._operator, self._clock = feed, operator, clock
        self._paint_s, self._silence_s, self._keys_s = paint_s, silence_s, keys_s
        self._board = Board(feed.place)
        self._notices = Notices()
        self._navigator: Navigator = Navigator(self)
        self._frozen: View | None = None
        self._trouble = ""
        self._painted = float("-inf")
        self._log_feed = self._subscription("log")
        self._step_feed = self._subscription("steps")
        self._key_feed = self._subscription("keys")
        self._decision_feed = self._subscription("decisions")
        self.register_theme(THEME)
        self.theme = self.look.theme
        self.set_class(self.look.plain, "-plain")

    def on_mount(self) -> None:
        self.arrive()
        self.listen()
        if self._paint_s:
            self.set_interval(self._paint_s, self.paint)
        if not self.is_headless:
            self._leave_on_signals()

    def arrive(self) -> None:
        """Show the first screen."""
        self.go(HOME)

    def listen(self) -> None:
        """Begin to hear of the platform."""
        self._start("feed", partial(collect, self._feed, self.post_message, silence_s=self._silence_s))

    async def on_unmount(self) -> None:
        await self._feed.close()

    def _leave_on_signals(self) -> None:
        """A signal must leave the terminal as it was found."""
        for number in (signal.SIGTERM, signal.SIGHUP):
            with suppress(NotImplementedError, RuntimeError, ValueError):
                asyncio.get_running_loop().add_signal_handler(number, self.exit, 128 + number)

    def _start(self, group: str, work: Callable[[], Any]) -> Worker[None]:
        """Background work; it is made only when it really starts."""
        return self.run_worker(work, group=group)

    def _subscription(self, group: str) -> Subscription:
        return Subscription(partial(self._start, group))

    def action_leave(self) -> None:
        self.exit(0)

    def on_key(self, event: events.Key) -> None:
        """Keys that were typed faster than the prompt could open were meant for it: none of them is an order."""
        if isinstance(self.focused, Input) and event.is_printable and event.character:
            event.prevent_default()
            self.focused.insert_text_at_cursor(event.character)

    def view(self) -> View:
        live = self.live()
        if self._frozen is None:
            return live
        link = replace(self._frozen.link, connected=live.link.connected, error=live.link.error)
        return replace(self._frozen, link=link, now_mono=live.now_mono, paused=True)

    def live(self) -> View:
        return self._board.view(self._clock())

    def pause(self) -> None:
        self._frozen = self.live() if self._frozen is None else None
        self.paint()

    def notices(self) -> Sequence[Notice]:
        return self._notices.current(self._clock())

    def tell(self, text: str, severity: str = "info", key: str = "") -> None:
        self._notices.add(text, severity, self._clock(), key)
        self.paint()

    def paint(self) -> None:
        """The screen on top. What lies behind a dialog stands still until the dialog is closed."""
        if not self.is_running:
            return  # screens are being taken apart
        self._painted = self._clock()
        top = self.screen_stack[-1] if self.screen_stack else None
        if isinstance(top, DeckModal):
            top.repaint()
        elif isinstance(top, DeckScreen):
            top.paint(self.view(), self.notices())

    def on_heard(self, message: Heard) -> None:
        was_lost = not self._board.view(0.0).link.connected
        self._board.heard(message.snapshot, self._clock())
        if was_lost:
            self._notices.drop("link")
            self._start("home-key", partial(ask_keys, self._feed, self.post_message))
        if was_lost or self._clock() - self._painted >= self._paint_s:
            self.paint()

    def on_learnt(self, message: Learnt) -> None:
        self._board.learn(message.events)

    def on_link_lost(self, message: LinkLost) -> None:
        self._board.lost(message.error)
        self.tell(f"{message.error}: trying again", "lost", "link")

    def on_told(self, message: Told) -> None:
        self.tell(message.text, message.severity, message.key)

    def on_drain_moved(self, message: DrainMoved) -> None:
        self.tell(*drain_words(message.progress), key=f"drain {message.progress.worker_id}")

    def on_drain_ended(self, message: DrainEnded) -> None:
        self.tell(f"drain {message.worker_id}: {message.error}", "error", f"drain {message.worker_id}")

    def on_log_read(self, message: LogRead) -> None:
        current = self._navigator.current if self.is_running else None
        if current is not None and message.target == self._log_feed.target:
            current.read(message)

    def on_stepped(self, message: Stepped) -> None:
        current = self._navigator.current if self.is_running else None
        if current is not None and message.worker_id == self._step_feed.target:
            current.stepped(message)

    def on_timed(self, message: Timed) -> None:
        current = self._navigator.current if self.is_running else None
        if current is not None:
            current.timed(message)

    def on_explained(self, message: Explained) -> None:
        if self.is_running and (current := self._navigator.current) is not None:
            current.explained(message)

    def on_decided(self, message: Decided) -> None:
        if self.is_running and (current := self._navigator.current) is not None:
            current.decided(message)

    def on_keys_read(self, message: KeysRead) -> None:
        if message.keys is not None and (words := trouble(message.keys)) != self._trouble:
            self._trouble = words
            if words:
                self.tell(f"{words}; inferdeck {REPLACE} makes another", "warning", "home key")
            else:
                self._notices.drop("home key")
                self.paint()
        if self.is_running and (current := self._navigator.current) is not None:
            current.keys_read(message)

    def on_policy_read(self, message: PolicyRead) -> None:
        if self.is_running and (current := self._navigator.current) is not None:
            current.policy_read(message)

    def on_previewed(self, message: Previewed) -> None:
        if isinstance(self.screen, ConfirmScreen):
            self.screen.take(message)

    def go(self, route: Route) -> None:
        self._navigator.go(route)

    def back(self) -> None:
        self._navigator.back()

    def previous(self) -> None:
        self._navigator.previous()

    def read_log(self, target: str, reader: object) -> None:
        work = partial(follow, self._feed, target, self.post_message)
        self._log_feed.want(target, reader, work if target else None)

    def watch_steps(self, worker_id: str, reader: object) -> None:
        work = partial(follow_steps, self._feed, worker_id, self.post_message)
        self._step_feed.want(worker_id, reader, work if worker_id else None)

    def read_keys(self, reader: object | None) -> None:
        work = partial(follow_keys, self._feed, self.post_message, every_s=self._keys_s)
        self._key_feed.want("", reader, work if reader is not None else None)

    def read_decisions(self, reader: object | None) -> None:
        work = partial(follow_decisions, self._feed, self.post_message)
        self._decision_feed.want("", reader, work if reader is not None else None)

    def ask_explanation(self, request_id: str) -> None:
        self._start("explanation", partial(ask_explanation, self._feed, request_id, self.post_message))

    def ask_blocks(self, worker_id: str) -> None:
        self._start("blocks", partial(ask_blocks, self._feed, worker_id, self.post_message))

    def ask_policy(self) -> None:
        self._start("policy", partial(ask_policy, self._feed, self.post_message))

    def ask_timeline(self, request_id: str) -> None:
        self._start("timeline", partial(ask_timeline, self._feed, request_id, self.post_message))

    def set_trace(self, worker_id: str, mode: TraceMode, every: int) -> None:
        if self.readonly:
            self.tell("read-only: no change of the trace from here", "warning")
            return
        work = partial(executor.set_trace, worker_id, mode, every, self._operator, self.post_message)
        self._start("trace", work)

    def order(self, verb: Verb, ids: Sequence[str], replicas: int | None = None) -> None:
        if self.readonly:
            self.tell(f"read-only: no {verb.value} from here", "warning")
            return
        view = self.view()
        pool = view.pool(ids[0]) if verb is Verb.SCALE and ids else None
        if verb is Verb.SCALE and replicas is None and pool is not None:
            self.push_screen(ScaleScreen(pool.name, pool.desired))
            return
        try:
            order = make_order(verb, ids, view.snapshot, replicas or 0)
        except Refused as refusal:
            self.tell(str(refusal), "warning")
        else:
            self.push_screen(ConfirmScreen(order))

    def preview(self, order: Order) -> None:
        self._start("preview", partial(executor.preview, order, self._operator, self.post_message))

    def carry_out(self, order: Order) -> None:
        live = self.live()
        against = problems(order, live.snapshot, live.link.connected)
        if self.readonly or against:
            self.tell("nothing done: " + "; ".join(against), "warning")
            return
        self._start("orders", partial(executor.carry_out, order, self._operator, self.post_message))

    def command(self, line: str) -> None:
        self._notices.drop(_COMMAND)
        try:
            self._obey(parse(line))
        except BadCommand as wrong:
            self.tell(str(wrong), "warning", _COMMAND)

    def _obey(self, command: Command) -> None:
        match command.verb:
            case "quit":
                self.exit(0)
            case "help":
                self.push_screen(HelpScreen())
            case "pause":
                self.pause()
            case "logs":
                self.go(Route("logs", command.target or "control-plane"))
            case "worker" | "engine" if self._unknown_worker(command.target):
                self.tell(f"worker {command.target} does not exist", "warning")
            case "worker" | "request" | "engine" | "explain":
                self.go(Route(command.verb, command.target))
            case view if view in BASES:
                self.go(Route(view))
            case verb:
                self.order(Verb(verb), [command.target], command.number)

    def _unknown_worker(self, worker_id: str) -> bool:
        view = self.view()
        return view.snapshot is not None and view.worker(worker_id) is None


def find_look(app: App[int]) -> Look:
    return look_for(os.environ, app.console.color_system, sys.stdout.encoding or "ascii")


def run(
    home: Path | None,
    *,
    readonly: bool,
    target: Callable[[], Target] | None = None,
    place: str | None = None,
    leaving: str = STAYS,
) -> int:
    """Show the platform of this home, or at ``target``, until the operator leaves. Returns the exit code.

    ``place`` is what people call it, where that is not the home; ``leaving`` what an end of the console does to it.

    Raises Unreachable when there is no platform to begin with; one that goes away later is waited for.
    """
    remote = Remote(home, target, place)
    remote.find()
    app = ConsoleApp(remote, remote, readonly=readonly, leaving=leaving)
    left = app.run()
    return left if left is not None else app.return_code or 0
