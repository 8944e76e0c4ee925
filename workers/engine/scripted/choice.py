"""One choice of one call inside the scripted engine."""

from __future__ import annotations

from dataclasses import dataclass, field

from control_plane.contracts.worker import Generate
from workers.engine.base import Sink
from workers.engine.modelless.choice import AnsweredChoice
from workers.engine.modelless.script import Script
from workers.engine.scripted.blocks import Block


@dataclass(slots=True, eq=False)
class Call:
    """A call that was submitted, and what its choices have used so far. ``*_mono`` is ``time.monotonic()``."""

    generate: Generate
    script: Script
    sink: Sink
    received_unix: float
    received_mono: float
    choices: list[Choice] = field(default_factory=list)
    cached_tokens: int = 0
    preemptions: int = 0
    scheduled_mono: float = 0.0
    first_mono: float = 0.0

    @property
    def open(self) -> int:
        return sum(not choice.ended for choice in self.choices)

    @property
    def output_tokens(self) -> int:
        return sum(choice.count for choice in self.choices)


@dataclass(slots=True, eq=False, kw_only=True)
class Choice(AnsweredChoice):
    """Its tokens (prompt and output), its blocks, and how far its script has come.

    ``order`` sorts the waiting; ``ticket`` is the number of its next turn, so that older ones are known to be stale.
    With ``grow_at`` tokens a block is full, or one more is needed.
    """

    call: Call
    order: tuple[int, int]
    keys: list[int]
    blocks: list[Block] = field(default_factory=list)
    ticket: int = 0
    due: float = 0.0
    grow_at: int = 0
    begun: bool = False
    running: bool = False
    stalled: bool = False
