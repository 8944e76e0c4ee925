"""A secret that was made just now, on its way to whoever asked for it: it is shown this once."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from console.cli.output import Format, write_data
from console.home import shown_path
from console.plain.terminal import out, say
from console.text import literal
from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.paths import expanded

OutOption = Annotated[
    str | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="Write the secret to this new file, which only you can read, and print it nowhere.",
    ),
]


@dataclass(slots=True)
class SecretFile:
    """A file that only its owner can read, open before there is a secret: what cannot be kept is not made."""

    path: Path
    handle: int
    written: bool = False

    def write(self, secret: str) -> None:
        with open(self.handle, "w", closefd=False) as file:
            file.write(f"{secret}\n")
        self.written = True


@contextlib.contextmanager
def secret_file(path: str | Path | None, *, replaces: bool = False) -> Iterator[SecretFile | None]:
    """A file for the secret; None without a path. ``replaces``: what is there is replaced, all at once.

    Raises InvalidRequest where the file is there, or cannot be made.
    """
    if path is None:
        yield None
        return
    whole = expanded(path).absolute()
    draft = whole.with_name(f".{whole.name}.{os.getpid()}") if replaces else whole
    try:
        file = SecretFile(whole, os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        raise InvalidRequest(f"{shown_path(draft)} is there already", param="out", hint="--out ANOTHER_FILE") from None
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise InvalidRequest(f"{shown_path(draft)} cannot be written: {why}", param="out") from None
    try:
        yield file
    finally:
        os.close(file.handle)
        if not file.written:
            draft.unlink(missing_ok=True)
        elif replaces:
            draft.replace(whole)


def hand_over(secret: str, file: SecretFile | None, words: str, data: Mapping[str, Any], output: Format) -> None:
    """The secret into its file, or on stdout alone; ``words`` and what to know of it beside that."""
    if file is not None:
        file.write(secret)
    if output in (Format.JSON, Format.YAML):
        kept = {"key": secret} if file is None else {"key_file": str(file.path)}
        write_data({**kept, **data}, output)
    else:
        say(literal(words))
        if file is None:
            say("the key itself, shown this once:")
            out(secret)
        else:
            say(f"the key is in {literal(shown_path(file.path))}, which only you can read, and nowhere else")
    if file is None and (mode := _open_to_others()):
        say(
            f"stdout is a file that others can read (mode {mode:04o}): chmod 600 it; --out FILE makes one of yours",
            "watch",
        )


def _open_to_others() -> int:
    """The mode of the file that stdout is, where others than its owner can read it; else 0."""
    try:
        found = os.fstat(sys.stdout.fileno())
    except (OSError, ValueError):
        return 0
    mode = stat.S_IMODE(found.st_mode)
    return mode if stat.S_ISREG(found.st_mode) and mode & 0o044 else 0
