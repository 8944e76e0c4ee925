"""What a screen may ask of the application it is shown in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

from textual.dom import DOMNode

from console.tui.live.board import View
from console.tui.notice import Notice
from console.tui.order import Order, Verb
from console.tui.render.look import Look
from console.tui.route import Route
from control_plane.contracts.step import TraceMode


class Deck(Protocol):
    look: Look
    readonly: bool
    own_keys: tuple[str, tuple[tuple[str, str], ...]]
    """What keys are for, and what they do, that every screen has beside the console's; none of a plain console."""
    leaving: str
    """What leaving the console does, and what it does not, for the help."""
    typed: list[str]
    """The commands that were typed so far, oldest first."""

    def view(self) -> View:
        """What is shown now; it stands still while paused."""
        ...

    def live(self) -> View:
        """The newest that is known, paused or not: what orders are checked against."""
        ...

    def go(self, route: Route) -> None: ...

    def back(self) -> None: ...

    def previous(self) -> None:
        """To the view before this one."""
        ...

    def pause(self) -> None:
        """Freeze the view, or let it go on; collecting never stops."""
        ...

    def order(self, verb: Verb, ids: Sequence[str], replicas: int | None = None) -> None:
        """Ask the operator to confirm an order on these ids, as they are at this moment."""
        ...

    def carry_out(self, order: Order) -> None:
        """Do it, if everything is still as it was when the order was made."""
        ...

    def preview(self, order: Order) -> None:
        """Ask the platform what the order would do; the answer comes to the current screen as a ``Previewed``."""
        ...

    def command(self, line: str) -> None: ...

    def tell(self, text: str, severity: str = "info") -> None:
        """Show a notice for a while."""
        ...

    def notices(self) -> Sequence[Notice]:
        """What the notice bar shows now."""
        ...

    def read_log(self, target: str, reader: object) -> None:
        """Follow a log, from its tail for a new reader; it comes to the current screen as ``LogRead``."""
        ...

    def watch_steps(self, worker_id: str, reader: object) -> None:
        """Follow what a worker's engine does, from some steps ago for a new reader; it comes to the current
        screen as ``Stepped``."""
        ...

    def read_keys(self, reader: object | None) -> None:
        """Follow callers' keys, as long as there is a reader; they come to the current screen as ``KeysRead``."""
        ...

    def ask_blocks(self, worker_id: str) -> None:
        """Ask a worker's engine for its KV cache; the answer comes as ``Stepped``."""
        ...

    def ask_policy(self) -> None:
        """Ask for the policy in force; it comes to the current screen as ``PolicyRead``."""
        ...

    def ask_timeline(self, request_id: str) -> None:
        """Ask where a request's time went; the answer comes to the current screen as ``Timed``."""
        ...

    def ask_explanation(self, request_id: str) -> None:
        """Ask why a request went where it went; the answer comes to the current screen as ``Explained``."""
        ...

    def read_decisions(self, reader: object | None) -> None:
        """Hear of decisions, as long as there is a reader; they come to the current screen as ``Decided``."""
        ...

    def set_trace(self, worker_id: str, mode: TraceMode, every: int) -> None:
        """Trace no step of a worker's engine, every so many, or all; how it stands then comes as ``Stepped``."""
        ...


def deck_of(node: DOMNode) -> Deck:
    return cast(Deck, node.app)
