"""What the screens of a lesson may ask of the application that they are shown in, beside what a console's may."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, cast

from textual.dom import DOMNode

from console.tui.learn.messages import Outcome

Doing = Callable[[], Awaitable[Outcome]]


class Desk(Protocol):
    @property
    def elsewhere(self) -> str:
        """The home of the lesson's platform, for commands from another terminal; "" while there is none."""
        ...

    def open_lesson(self, name: str) -> None:
        """Begin it, or go on with it."""
        ...

    def begin(self) -> None:
        """Start the platform of the lesson that is open; ``Began`` or ``Failed`` comes to its screen."""
        ...

    def anew(self) -> None:
        """The lesson from its first step, on a platform that is put back."""
        ...

    def work(self, doing: Doing) -> None:
        """Do it beside the drawing; ``Came`` or ``Failed`` comes to the lesson's screen. One thing at a time."""
        ...

    def finish(self) -> None:
        """The lesson is over; its platform stays for the next one that wants the same."""
        ...


def desk_of(node: DOMNode) -> Desk:
    return cast(Desk, node.app)
