"""What a lesson's work posts. Only handlers touch widgets."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message

from console.readiness import Readiness
from control_plane.contracts.errors import InferDeckError
from lessons.player import Reply

Outcome = Reply | bool | None
"""Of what was done; whether a lesson goes on; nothing."""


@dataclass
class Readying(Message):
    """The lesson's platform comes up."""

    readiness: Readiness


@dataclass
class Began(Message):
    """The lesson's platform is there, or as new again."""


@dataclass
class Came(Message):
    """Work that was asked for has been done."""

    outcome: Outcome


@dataclass
class Failed(Message):
    """Work that was asked for could not be done. ``starting``: there is no platform."""

    error: InferDeckError
    starting: bool = False
