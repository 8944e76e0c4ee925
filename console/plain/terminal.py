"""What the two outputs can show: width, colour, and whether a person sits there.

Data goes to stdout, narration to stderr. Whether colour and a width limit apply is asked of each stream, so a pipe
never gets an escape sequence or a shortened value.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator
from typing import TextIO

from control_plane.contracts.errors import InferDeckError

STYLES = {"good": "32", "watch": "33", "bad": "31", "quiet": "2", "strong": "1", "title": "1"}


def is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


def dumb() -> bool:
    return os.environ.get("TERM", "") in ("", "dumb")


def draws() -> bool:
    """Whether whole screens can be shown, and keys pressed on them."""
    return is_terminal(sys.stdin) and is_terminal(sys.stdout) and not dumb()


def coloured(stream: TextIO) -> bool:
    """Colour: only on a terminal that can, and unless ``NO_COLOR`` is set to anything."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and not dumb()


def width(stream: TextIO) -> int | None:
    """Columns of the terminal (``COLUMNS`` wins); None where output is not cut at all."""
    return max(1, shutil.get_terminal_size((80, 24)).columns) if is_terminal(stream) else None


def paint(text: str, style: str | None, stream: TextIO | None = None) -> str:
    """The text in a style of ``STYLES`` where the stream shows colour."""
    if not style or not coloured(stream or sys.stdout):
        return text
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m"


class OutputLost(InferDeckError):
    """What was to be written to stdout cannot be: a full disk, a closed file. A reader that left is none of these."""


def out(text: str, end: str = "\n") -> None:
    """A line of data. Raises OutputLost, or BrokenPipeError where the reader has left."""
    with _output():
        sys.stdout.write(text + end)


def flush() -> None:
    """Let out what was written. Raises as ``out`` does."""
    with _output():
        sys.stdout.flush()


@contextlib.contextmanager
def _output() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise OutputLost(f"the output cannot be written: {error.strerror or error}") from None


def say(text: str, style: str | None = None) -> None:
    """A line of narration."""
    flush()
    print(paint(text, style, sys.stderr), file=sys.stderr, flush=True)


def interactive() -> bool:
    """Whether a question can be asked and answered."""
    return is_terminal(sys.stdin) and is_terminal(sys.stderr)
