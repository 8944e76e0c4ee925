"""The root command, and how a function becomes a command of it.

A command is a plain or async function whose first parameter is a ``Place``; the options that say where the platform
is are added to it here, those that its ``Reach`` has. Its ``Effect`` says which options it must have of its own.
"""

from __future__ import annotations

import functools
import inspect
import os
import shlex
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from typer.core import TyperGroup

from console.cli.effect import Effect, check
from console.cli.exits import USAGE, Ended, code_of, tell
from console.cli.reach import Reach
from console.cli.reference import nearest_kind
from console.home import Home, Target, target_for
from console.plain.terminal import flush
from control_plane.contracts.errors import InferDeckError

if TYPE_CHECKING:
    from console.client import OperatorClient

PLATFORM, LOOK, OPERATE, USE = "Platform", "Look", "Operate", "Use"
SECTIONS = (PLATFORM, LOOK, OPERATE, USE)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the platform is, as the command line named it."""

    home: Home
    server: str | None = None
    operator_key_file: str | None = None
    operator_cert_file: str | None = None
    home_option: str | None = None

    def target(self) -> Target:
        return target_for(self.home, self.server, self.operator_key_file, self.operator_cert_file)

    def client(self) -> OperatorClient:
        """A client, for use inside a running loop. Raises Unreachable at once when the home has no platform."""
        target = self.target()
        from console.client import OperatorClient

        return OperatorClient(target)

    def command(self, words: str, *names: str) -> str:
        """The command line that does ``words`` to ``names`` at the same place, for hints."""
        parts = ["inferdeck", words, *map(shlex.quote, names)]
        for flag, value in (
            ("--home", self.home_option),
            ("--server", self.server),
            ("--operator-key-file", self.operator_key_file),
            ("--operator-cert-file", self.operator_cert_file),
        ):
            if value is not None:
                parts += [flag, shlex.quote(value)]
        return " ".join(parts)


class Sections(TyperGroup):
    """The root command; its help lists the commands by what they are for."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Who types what there is for a command, or nearly so, wants it listed."""
        if self.get_command(ctx, args[0]) is None and (kind := nearest_kind(args[0], self.list_commands(ctx))):
            ctx.fail(f"no such command: {args[0]}; did you mean get {kind}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        for section in SECTIONS:
            rows = [
                (name, command.get_short_help_str(limit=100))
                for name, command in commands
                if command is not None and not command.hidden and getattr(command, "rich_help_panel", "") == section
            ]
            if rows:
                with formatter.section(section):
                    formatter.write_dl(rows)


app = typer.Typer(
    cls=Sections,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


Run = Callable[..., Awaitable[None] | None]


def command(name: str, section: str, effect: Effect, reach: Reach = Reach.ANYWHERE) -> Callable[[Run], Run]:
    """Register a function as ``inferdeck NAME``."""

    def register(function: Run) -> Run:
        app.command(name, rich_help_panel=section)(_bound(function, name, effect, reach))
        return function

    return register


class Verbs:
    """A command that has commands of its own: ``inferdeck NAME VERB``. ``bare`` is what it does without a verb: it
    looks at a home. ``otherwise`` is the verb that is meant where the first word is none."""

    def __init__(self, name: str, section: str, about: str, bare: Run | None = None, otherwise: str = "") -> None:
        self.name = name
        self._app = typer.Typer(
            cls=_meaning(otherwise) if otherwise else TyperGroup,
            add_completion=False,
            rich_markup_mode=None,
            no_args_is_help=bare is None,
            context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
        )
        if bare is not None:
            self._app.callback(invoke_without_command=True)(_unless_verb(_bound(bare, name, Effect.LOOKS, Reach.HOME)))
        app.add_typer(self._app, name=name, help=about, rich_help_panel=section)

    def verb(self, name: str, effect: Effect, reach: Reach = Reach.ANYWHERE) -> Callable[[Run], Run]:
        """Register a function as ``inferdeck NAME VERB``."""

        def register(function: Run) -> Run:
            self._app.command(name)(_bound(function, f"{self.name} {name}", effect, reach))
            return function

        return register


def _meaning(verb: str) -> type[TyperGroup]:
    class Meaning(TyperGroup):
        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            known = not args or self.get_command(ctx, args[0]) is not None
            return super().resolve_command(ctx, args if known else [verb, *args])

    return Meaning


def _unless_verb(function: Callable[..., None]) -> Callable[..., None]:
    """Run only where no verb follows; options before one would be lost, so they are refused."""
    signature = inspect.signature(function)
    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)

    @functools.wraps(function)
    def run(*, context: typer.Context, **values: Any) -> None:
        verb = context.invoked_subcommand
        if verb is None:
            function(**values)
        elif any(values[name] not in (None, parameter.default) for name, parameter in signature.parameters.items()):
            raise typer.BadParameter(f"options come after the verb: {context.info_name} {verb} …")

    parameters = [context, *signature.parameters.values()]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # how typer reads it
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


EFFECTS: dict[str, Effect] = {}
"""Of every command, by its words: ``key create``."""


def _bound(function: Run, name: str, effect: Effect, reach: Reach) -> Callable[..., None]:
    signature = inspect.signature(function, eval_str=True)
    _, *own = signature.parameters.values()
    check(name, effect, [parameter.name for parameter in own])
    EFFECTS[name] = effect
    added = [
        inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for option, annotation in reach.options.items()
    ]
    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own] + added

    @functools.wraps(function)
    def run(**values: Any) -> None:
        where = {parameter.name: values.pop(parameter.name) for parameter in added}
        home = where.pop("home", None)
        place = Place(Home.find(home), home_option=home, **where)
        try:
            result = function(place, **values)
            if result is not None:
                import asyncio

                asyncio.run(_await(result))
            flush()
        except BrokenPipeError:
            _reader_left()
        except InferDeckError as error:
            tell(error.message, error.hint)
            raise typer.Exit(code_of(error)) from None
        except UnicodeEncodeError as error:
            # A shell hands over any bytes; what is no text has halves of characters, which go on no wire.
            tell(f"{error.object!r} holds bytes that are not UTF-8", f"inferdeck {name} --help")
            raise typer.Exit(USAGE) from None
        except Ended as ended:
            raise typer.Exit(ended.code) from None

    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # how typer reads it
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


async def _await(result: Awaitable[None]) -> None:
    await result


def _reader_left() -> NoReturn:
    """Whoever read our output has had enough, which is no failure; let nothing more be written at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise typer.Exit(0)
