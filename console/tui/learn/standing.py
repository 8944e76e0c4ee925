"""Where a learner stands in a lesson: the sheet, what is typed, what came of the last thing done. No drawing."""

from __future__ import annotations

from dataclasses import dataclass, field

from console.readiness import Readiness
from console.tui.learn.draft import Draft
from console.tui.learn.sheets import Kind, Sheet, sheets
from control_plane.contracts.errors import InferDeckError
from lessons.actions import POOL
from lessons.model import Check, Do, Observe, Predict, Quiz, Reveal, Show
from lessons.player import Player, Reply
from lessons.progress import State


@dataclass(slots=True)
class Standing:
    """``top``: lines of the sheet that were read already where it is longer than its place. ``doing``: what goes on,
    in words, since ``since`` (monotonic). ``started`` is false until there is a platform; ``trouble`` is why there is
    none. ``came``: something was done on this page, or a hint was asked for, since the learner came to it; ``fresh``:
    so that it is to be seen at once."""

    player: Player
    sheet: int = 0
    top: int = 0
    draft: Draft | None = None
    reply: Reply = field(default_factory=lambda: Reply(True))
    note: str = ""
    doing: str = ""
    since: float = 0.0
    busy: bool = True
    came: bool = False
    fresh: bool = False
    started: bool = False
    readiness: Readiness | None = None
    trouble: InferDeckError | None = None

    def arrive(self, *, at_end: bool = False) -> None:
        """The player has come to another page."""
        self.sheet = len(self.sheets) - 1 if at_end else 0
        self.top = 0
        self.reply, self.note, self.draft = Reply(True), "", None
        self.came = self.fresh = False
        step = self.player.step
        if isinstance(step, Predict | Quiz) and self.asked:
            workers = [f"{POOL}-{number}" for number in range(1, self.player.lesson.sandbox.replicas + 1)]
            self.draft = Draft(step, workers, self.player.here.answer)

    def settle(self, reply: Reply) -> None:
        """Something was done here: on to what came of it, if it is done now."""
        self.reply, self.note, self.top = reply, "", 0
        self.came = self.fresh = True
        if reply.ok and self.player.here.state is not State.OPEN and self.more:
            self.sheet += 1

    @property
    def sheets(self) -> tuple[Sheet, ...]:
        return sheets(self.player)

    @property
    def shown(self) -> Sheet:
        every = self.sheets
        return every[min(self.sheet, len(every) - 1)]

    @property
    def more(self) -> bool:
        """Whether another sheet belongs to this page."""
        return self.sheet < len(self.sheets) - 1

    @property
    def asked(self) -> bool:
        """On the last page of a step's words: there is what is asked, or to be done."""
        return self.player.page == len(self.player.step.words.pages) - 1

    @property
    def waits(self) -> bool:
        """Whether the learner has to answer or to do something here."""
        step = self.player.step
        open_ = self.player.here.state is State.OPEN
        return self.asked and open_ and self.shown.kind is Kind.PAGE and not isinstance(step, Reveal | Show)

    @property
    def repeats(self) -> bool:
        """Whether what was done here can be set off again: the learner has come back to it."""
        failed = self.came and not self.reply.ok
        back = failed or not self.came or isinstance(self.player.step, Observe)
        return self.asked and self.shown.kind is Kind.PAGE and back and self.player.repeats

    @property
    def answers(self) -> bool:
        """Whether what is typed is an answer: also one in place of another, until the experiment has run."""
        step, record = self.player.step, self.player.record
        if self.draft is None or self.busy or self.shown.kind is not Kind.PAGE:
            return False
        if isinstance(step, Predict):
            return record.of(step.about).state is State.OPEN
        return self.player.here.state is State.OPEN

    @property
    def acts(self) -> bool:
        return (self.waits and isinstance(self.player.step, Do | Observe | Check)) or self.repeats
