"""The line at the bottom where a command or a filter is typed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Input

from console.tui.deck import deck_of
from console.tui.render.spans import Span
from console.tui.widgets.entry import Entry
from console.tui.widgets.lines import Lines

Completions = Callable[[str], Sequence[str]]


class _Line(Entry):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", show=False),
        Binding("tab", "complete", show=False),
        Binding("up", "recall(-1)", show=False),
        Binding("down", "recall(1)", show=False),
        # What these do elsewhere must not happen while one types.
        Binding("ctrl+s,ctrl+o,ctrl+g", "nothing", show=False),
    ]

    def action_leave(self) -> None:
        self._prompt.leave()

    def action_complete(self) -> None:
        self._prompt.complete()

    def action_recall(self, by: int) -> None:
        self._prompt.recall(by)

    def action_nothing(self) -> None:
        pass

    @property
    def _prompt(self) -> Prompt:
        return next(node for node in self.ancestors if isinstance(node, Prompt))


class Prompt(Vertical):
    DEFAULT_CSS = """
    Prompt { height: auto; display: none; }
    Prompt Horizontal { height: 1; }
    Prompt Lines.sigil { width: 2; }
    Prompt Entry { border: none; height: 1; padding: 0; width: 1fr; }
    Prompt Entry:focus { border: none; }
    """

    @dataclass
    class Entered(Message):
        """A command line was finished."""

        line: str

    @dataclass
    class Filtered(Message):
        """The filter's text is this now."""

        needle: str

    class Left(Message):
        """The prompt was closed."""

    def __init__(self, completions: Completions) -> None:
        super().__init__()
        self._completions = completions
        self._at = 0
        self._sigil = ":"
        self._cycle: Sequence[str] = ()

    def compose(self) -> ComposeResult:
        yield Lines(classes="candidates")
        with Horizontal():
            yield Lines(classes="sigil")
            yield _Line(select_on_focus=False)

    @property
    def line(self) -> Input:
        return self.query_one(_Line)

    def open(self, sigil: str, text: str = "") -> None:
        """Start to type: ``:`` for a command, ``/`` for a filter."""
        self._sigil, self._at, self._cycle = sigil, len(deck_of(self).typed), ()
        self.display = True
        self.query_one(".candidates", Lines).display = sigil == ":"
        self.query_one(".sigil", Lines).put([[(sigil, deck_of(self).look.palette.key)]])
        self.line.value = text
        self.line.cursor_position = len(text)
        self.screen.set_focus(self.line)
        self._offer()

    def leave(self) -> None:
        """Esc: a command is forgotten, a filter is taken off."""
        if self._sigil == "/":
            self.post_message(self.Filtered(""))
        self._close()

    def complete(self) -> None:
        """As far as all candidates agree, then one after the other."""
        typed = self.line.value
        if typed in self._cycle:
            self._set(self._cycle[(self._cycle.index(typed) + 1) % len(self._cycle)])
            return
        offered = self._offered()
        if not offered:
            return
        common = _common_start(offered)
        if len(common) > len(typed):
            self._set(common)
        else:
            self._cycle = offered
            self._set(offered[0])

    def recall(self, by: int) -> None:
        past = deck_of(self).typed
        if self._sigil != ":" or not past:
            return
        self._at = max(0, min(len(past), self._at + by))
        self._set(past[self._at] if self._at < len(past) else "")

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if not self.display:
            return
        if self._sigil == "/":
            self.post_message(self.Filtered(event.value))
        else:
            self._offer()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if self._sigil == ":" and event.value.strip():
            deck_of(self).typed.append(event.value)
            self.post_message(self.Entered(event.value))
        self._close()

    def on_descendant_blur(self, event: events.DescendantBlur) -> None:
        if self.display:
            self._close()

    def _set(self, text: str) -> None:
        self.line.value = text
        self.line.cursor_position = len(text)

    def _offered(self) -> Sequence[str]:
        return self._completions(self.line.value) if self._sigil == ":" else []

    def _offer(self) -> None:
        palette = deck_of(self).look.palette
        spans: list[Span] = [(" ", palette.dim)]
        for candidate in self._offered()[:30]:
            spans += [(candidate.rsplit(" ", 1)[-1] or candidate, palette.accent), ("  ", palette.dim)]
        self.query_one(".candidates", Lines).put([spans])

    def _close(self) -> None:
        self.display = False
        self.line.value = ""
        self.post_message(self.Left())


def _common_start(texts: Sequence[str]) -> str:
    """What all of them begin with."""
    first, last = min(texts), max(texts)
    return next((first[:index] for index, char in enumerate(first) if last[index : index + 1] != char), first)
