"""The part of a screen between its header and its bottom lines."""

from __future__ import annotations

from textual.containers import Vertical
from textual.message import Message


class Body(Vertical):
    DEFAULT_CSS = "Body { height: 1fr; overflow: hidden; }"

    class Resized(Message):
        """The room has become another: notices and prompts take from it."""

    def on_resize(self) -> None:
        self.post_message(self.Resized())
