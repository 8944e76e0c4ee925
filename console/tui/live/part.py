"""What of an engine is looked at."""

from __future__ import annotations

from enum import Enum


class Part(Enum):
    """All of it as it goes on; its steps, standing still where something of note happened; or who holds which
    blocks."""

    ALL = ""
    STEPS = "steps"
    BLOCKS = "blocks"
