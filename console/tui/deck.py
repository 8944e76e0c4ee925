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


class Deck(Protocol):
    look: Look
    readonly: bool
    typed: list[str]
    own_keys: tuple[tuple[str, str], ...]
    """Keys, and what they do, that every screen has beside the console's."""
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


def deck_of(node: DOMNode) -> Deck:
    return cast(Deck, node.app)
