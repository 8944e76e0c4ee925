"""A lesson on any terminal, line by line: what is typed goes to the player, what comes of it is printed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable

from console.learn.sandbox import SandboxGone
from console.learn.screen import commands_in, heading, outcome_lines, paragraph, question, title
from console.learn.stage import PlatformStage
from control_plane.contracts.errors import InferDeckError
from lessons.model import Check, Do, Lesson, Observe, Predict, Quiz, Show
from lessons.player import Player, Reply, gives_away, unmet
from lessons.progress import Progress, State
from lessons.score import score_words

Say = Callable[[str], None]

KEYS = "Enter goes on · h hint · s skip · < back · a again · r reset · q leave (and go on later) · ? this"

_ASKS = {
    "do": "Enter does it",
    "predict": "your prediction",
    "observe": "Enter runs it",
    "check": "Enter looks whether it is done",
    "quiz": "your answer",
}


async def typed() -> str:
    """The next line from the terminal; "q" at its end."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(sys.stdin.fileno())
    line = sys.stdin.readline()
    return line.strip() if line else "q"


class LinePlayer:
    """``ask`` prints its text without a line's end."""

    def __init__(self, lesson: Lesson, stage: PlatformStage, progress: Progress, say: Say, ask: Say) -> None:
        self._stage = stage
        self._progress = progress
        self._player = Player(lesson, stage, progress)
        self._say = say
        self._ask = ask

    async def go(self) -> None:
        if self._player.record.finished and not await self._wanted():
            return
        player = self._player
        await player.start()
        self._lines(heading(player.lesson, player.label))
        self._say(f"   From another terminal: inferdeck get workers --home {self._stage.home}")
        self._say(f"   {KEYS}")
        await self._screen()
        while True:
            self._ask(self._prompt())
            word = await typed()
            if word == "q":
                self._say("   kept: the same command goes on from here")
                return
            try:
                if not await self._heard(word):
                    self._say("")
                    self._say(f"Lesson {player.lesson.number} is done.{self._skipped()}")
                    return
            except SandboxGone:
                raise
            except InferDeckError as error:
                self._say(f"   {error.message}" + (f" ({error.hint})" if error.hint else ""))

    async def _wanted(self) -> bool:
        """Of a lesson that is done: how it went, and what is to be done with it; False for nothing."""
        lesson, record = self._player.lesson, self._player.record
        self._say(f"Lesson {lesson.number} is done: {score_words(lesson, record)}.")
        while True:
            self._ask("   [Enter begins it anew · b looks back · q leaves] > ")
            word = await typed()
            if word == "b":
                self._player = Player(lesson, self._stage, self._progress, back=True)
            if word in ("", "b", "q"):
                return word != "q"

    def _prompt(self) -> str:
        waits = self._player.here.state is State.OPEN and self._at_end
        again = self._at_end and self._player.repeats
        asks = "Enter goes on, a does it again" if again else "Enter"
        return f"   [{_ASKS.get(self._player.step.kind, 'Enter') if waits else asks}] > "

    @property
    def _at_end(self) -> bool:
        return self._player.page == len(self._player.step.words.pages) - 1

    async def _heard(self, word: str) -> bool:
        """False at the lesson's end."""
        player = self._player
        if word == "?":
            self._say(f"   {KEYS}")
        elif word == "h":
            hint = player.hint()
            self._lines(paragraph(hint or "There is no other hint."))
            self._where(hint)
        elif word == "<":
            if player.back():
                await self._screen()
        elif word == "r":
            await player.reset()
            await self._screen()
        elif word == "a" and self._at_end and player.repeats:
            self._tell(await player.act())
        elif word == "s":
            self._tell(await player.skip())
            return await self._on()
        elif word:
            self._tell(player.commit(word))
            return await self._on() if isinstance(player.step, Predict) else True
        elif self._at_end and player.here.state is State.OPEN and isinstance(player.step, Do | Observe | Check):
            self._tell(await player.act())
        else:
            return await self._on()
        return True

    async def _on(self) -> bool:
        if not await self._player.forward():
            return False
        await self._screen()
        return True

    async def _screen(self) -> None:
        player = self._player
        if player.page == 0:
            self._say("")
            self._say(title(player.lesson, player.index, player.label))
        words = player.step.words.pages[player.page]
        self._lines(paragraph(words))
        self._where(words)
        if not self._at_end:
            return
        if isinstance(player.step, Predict | Quiz):
            self._lines(question(player.step))
        elif isinstance(player.step, Show):
            self._tell(await player.show())
        else:
            self._tell(player.results())

    def _tell(self, reply: Reply) -> None:
        if not gives_away(self._player, reply):
            self._lines(outcome_lines(reply))
        if reply.message not in ("", unmet(reply.verdicts)):
            self._lines(paragraph(reply.message))
            self._where(reply.message)
        self._lines(paragraph(reply.answer))

    def _where(self, words: str) -> None:
        """How a command that they name is typed in another terminal."""
        if commands_in(words):
            self._say(f"   (in another terminal: inferdeck … --home {self._stage.home})")

    def _skipped(self) -> str:
        skipped = self._player.record.skipped()
        return f" {skipped} of {len(self._player.lesson.steps)} steps were skipped." if skipped else ""

    def _lines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._say(line)
