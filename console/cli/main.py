"""Entry point: parse, run, and turn whatever happens into words on stderr and an exit code."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from console.cli import commands  # noqa: F401  # registers them
from console.cli.command import app
from console.cli.exits import FAILED, INTERRUPTED, USAGE, tell


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Run an LLM inference platform and see what it does: engines, router and gateway, from one terminal."""
    if version:
        from console.cli.version import version_of

        typer.echo(f"inferdeck {version_of('inferdeck')}")
        raise typer.Exit()
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit the process."""
    _fill_closed()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    code = run(sys.argv[1:] if arguments is None else list(arguments))
    try:
        sys.stdout.flush()
    except OSError:
        # The command has told it, and knows whether it matters.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _fill_closed() -> None:
    """Put something in place of standard streams that the caller has closed, so that no file gets their numbers.

    Output cannot be written to it, which is an error like a full disk; what is said on stderr is for nobody.
    """
    for number, flags in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flags)
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def run(arguments: list[str]) -> int:
    try:
        result = typer.main.get_command(app).main(arguments, prog_name="inferdeck", standalone_mode=False)
    except KeyboardInterrupt:
        return INTERRUPTED
    except typer.Abort:
        return INTERRUPTED
    except Exception as error:
        return _told(error)
    return result if isinstance(result, int) else 0


_NO_BRACES = str.maketrans("", "", "{}")
_PLACES = ("--server", "--operator-key-file", "--operator-cert-file")


def _told(error: Exception) -> int:
    """A wrong command line is told in two lines; typer's own exceptions are known by what they offer."""
    describe: Any = getattr(error, "format_message", None)
    if describe is None:
        raise error
    context: Any = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "inferdeck"
    message = describe().replace("\n", " ").replace("Value error, ", "")
    if (option := getattr(error, "option_name", "")) in _PLACES and path.startswith("inferdeck "):
        message = f"{path.partition(' ')[2]} has no {option}: it is about this machine, not about a platform elsewhere"
    hint = f"{path} --help"
    if context is not None and "unexpected extra argument" in message:
        _, *form = context.command.collect_usage_pieces(context)
        hint = " ".join([path, *form]).translate(_NO_BRACES)
    tell(message[:1].lower() + message[1:], hint)
    return USAGE if getattr(error, "exit_code", FAILED) == USAGE else FAILED
