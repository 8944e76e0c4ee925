"""``learn``: lessons on a platform of their own."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from console.cli.command import USE, Place, Verbs
from console.cli.effect import Effect
from console.cli.exits import FAILED, INTERRUPTED, Ended
from console.cli.output import Format, write_data, write_rows
from console.cli.reach import Reach
from console.plain.data import plain as plain_data
from console.plain.table import Column
from console.plain.terminal import draws, flush, interactive, out, say
from control_plane.contracts.errors import InvalidRequest

if TYPE_CHECKING:
    from lessons.model import Lesson
    from lessons.progress import Progress

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="Its number, its name or a part of it; or the path of a folder.")
]


PlainOption = Annotated[bool, typer.Option("--plain", help="Line by line, as where the terminal cannot draw screens.")]


def learn(
    place: Place,
    output: Annotated[Format | None, typer.Option("-o", "--output", help="How to print the list.")] = None,
    plain: PlainOption = False,
) -> None:
    """Learn how it works, on the running thing: see, predict, do. Without a name, list the lessons.

    inferdeck learn NAME begins a lesson, or goes on where you left it. It runs on a platform of its own, which
    ends with it; yours is not touched.
    """
    from console.learn.entries import entries

    progress = _progress(place)
    found = entries(progress)
    if output is None and not plain and draws():
        from console.tui.learn.app import run

        raise Ended(run(progress))
    if output in (Format.JSON, Format.YAML):
        write_data([plain_data(entry) for entry in found], output)
    elif output is Format.NAME:
        for entry in found:
            out(f"lesson/{entry.name}")
    else:
        write_rows(
            found,
            [
                Column("LESSON", lambda e: e.name, keep=9),
                Column("TITLE", lambda e: e.title, keep=7),
                Column("MINUTES", lambda e: str(e.minutes), right=True, keep=4),
                Column("RUNS ON", lambda e: e.runs_on, keep=5),
                Column("PROGRESS", lambda e: e.progress, keep=8),
            ],
        )


LEARN = Verbs("learn", USE, "Lessons on the running system; without a name, which there are.", learn, "play")


@LEARN.verb("play", Effect.RUNS, Reach.HOME)
def play(
    place: Place,
    name: NameArgument,
    script: Annotated[
        bool, typer.Option("--script", help="Play it through with its own answers; exit 0 only if each check held.")
    ] = False,
    plain: PlainOption = False,
) -> None:
    """Take a lesson; the word play may be left out: inferdeck learn 7.

    On a terminal its words stand beside its platform, live. With --script nobody has to be there, and the learner's
    progress stays as it is.
    """
    from console.learn.lines import LinePlayer
    from console.learn.script import play as play_script
    from console.learn.stage import PlatformStage

    lesson = _lesson(name)
    if not script and not plain and draws():
        from console.tui.learn.app import run

        raise Ended(run(_progress(place), lesson))

    if not script and not interactive():
        raise InvalidRequest(
            "a lesson asks, and nobody is here to answer", param="script", hint=f"inferdeck learn {name} --script"
        )

    async def go() -> bool:
        async with PlatformStage() as stage:
            if script:
                return await play_script(lesson, stage, _line)
            await LinePlayer(lesson, stage, _progress(place), _line, _ask).go()
            return True

    _run(go)


@LEARN.verb("verify", Effect.RUNS, Reach.HOME)
def verify(
    place: Place,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A lesson's name, or the path of a folder. [all]")
    ] = None,
) -> None:
    """Check that lessons are sound: each is played twice, in a new sandbox and in a messed up one.

    A check has to fail before its step is done and to hold after, and wrong answers get the hint that is meant for
    them. Exits 1 when anything is wrong.
    """
    from console.learn.stage import PlatformStage
    from console.learn.verify import verify as verify_lesson
    from lessons.catalogue import folders
    from lessons.loader import load

    wanted = [_lesson(name)] if name is not None else [load(folder) for folder in folders()]

    async def go() -> bool:
        good = True
        async with PlatformStage() as stage:
            for lesson in wanted:
                good &= not await verify_lesson(lesson, stage, _line)
        return good

    _run(go)


@LEARN.verb("new", Effect.RUNS, Reach.HOME)
def new(
    place: Place,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Two digits and words, like 12-my-lesson.")],
    folder: Annotated[Path, typer.Option("--in", metavar="DIR", help="Where its folder is made. [here]")] = Path(),
) -> None:
    """Begin a lesson of your own: a folder with a small one that plays, and verifies, as it is."""
    from lessons.catalogue import write_new

    made = write_new(name, folder)
    out(str(made))
    say(f"edit lesson.toml and words.md there, then: inferdeck learn verify {folder}/{name}")


@LEARN.verb("moment", Effect.RUNS, Reach.HOME)
def moment(
    place: Place,
    name: NameArgument,
    at: Annotated[
        str, typer.Option("--at", metavar="STEP", help="Which experiment. [the one that measures most]")
    ] = "",
    result: Annotated[bool, typer.Option("--result", help="With what came of it, not while it runs.")] = False,
    file: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where to. [moment.svg in the lesson's folder]")
    ] = None,
) -> None:
    """Draw a lesson's best moment: play it up to an experiment, and keep its screen as a picture (SVG)."""
    from console.tui.learn.moment import best_step
    from console.tui.learn.moment import moment as picture_of
    from lessons.overview import PICTURE

    lesson = _lesson(name)
    into = file or lesson.folder / PICTURE

    async def go() -> bool:
        picture = await picture_of(lesson, at or best_step(lesson), result=result)
        try:
            into.write_text(picture, encoding="utf-8")
        except OSError as error:
            raise InvalidRequest(f"{into} cannot be written: {error.strerror or error}", param="out") from None
        out(str(into))
        return True

    _run(go)


def _progress(place: Place) -> Progress:
    from lessons.progress import Progress

    return Progress.read(place.home.path / "learn.json")


def _lesson(name: str) -> Lesson:
    from lessons.catalogue import folder_of
    from lessons.loader import load

    return load(folder_of(name))


def _line(text: str) -> None:
    out(text)
    flush()


def _ask(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _run(go: Callable[[], Awaitable[bool]]) -> None:
    """To its end or to Ctrl-C, with nothing left running in either case."""
    import asyncio

    from console.cli.attend import Interrupts

    async def attended() -> int:
        with Interrupts().caught() as interrupts:
            going = asyncio.ensure_future(go())
            interrupt = asyncio.create_task(interrupts.next())
            await asyncio.wait((going, interrupt), return_when=asyncio.FIRST_COMPLETED)
            if going.done():
                interrupt.cancel()
                return 0 if going.result() else FAILED
            say("interrupted: stopping the lesson's platform")
            going.cancel()
            await asyncio.wait((going,))
            return INTERRUPTED

    if code := asyncio.run(attended()):
        raise Ended(code)
