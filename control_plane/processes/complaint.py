"""How a process says what went wrong, and what it exits with."""

from __future__ import annotations

import sys

from control_plane.contracts.errors import InferDeckError, InvalidRequest, SettingsError


def tell(error: InferDeckError) -> None:
    for line in str(error.message).splitlines():
        print(f"error: {line}", file=sys.stderr)
    if error.hint:
        print(f"hint: {error.hint}", file=sys.stderr)


def exit_code(error: InferDeckError) -> int:
    """2 where a setting or an argument is wrong, 1 where it could not run."""
    return 2 if isinstance(error, SettingsError | InvalidRequest) else 1
