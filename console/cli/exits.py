"""Exit codes, and how an error is told: what failed and where, then a command that helps."""

from __future__ import annotations

import contextlib
import sys

from console.home import Distrusted, Unreachable
from console.plain.terminal import OutputLost, flush, paint
from console.text import literal
from control_plane.contracts.errors import (
    Forbidden,
    InferDeckError,
    InvalidRequest,
    NotFound,
    RequestTimeout,
    SettingsError,
    Unauthenticated,
)

OK = 0
FAILED = 1
USAGE = 2
NOT_FOUND = 3
AUTH = 4
TIMED_OUT = 5
UNREACHABLE = 6
INTERRUPTED = 130

_CODES: tuple[tuple[type[InferDeckError], int], ...] = (
    (Distrusted, AUTH),
    (Unreachable, UNREACHABLE),
    (Unauthenticated, AUTH),
    (Forbidden, AUTH),
    (NotFound, NOT_FOUND),
    (RequestTimeout, TIMED_OUT),
    (InvalidRequest, USAGE),
    (SettingsError, USAGE),
)


def code_of(error: InferDeckError) -> int:
    return next((code for kind, code in _CODES if isinstance(error, kind)), FAILED)


def tell(message: str, hint: str = "") -> None:
    """An error on stderr."""
    with contextlib.suppress(OutputLost):
        flush()
    print(f"{paint('error:', 'bad', sys.stderr)} {literal(message, keep=chr(10))}", file=sys.stderr)
    if hint:
        print(f"{paint('hint:', 'strong', sys.stderr)} {literal(hint, keep=chr(10))}", file=sys.stderr)
    sys.stderr.flush()


class Ended(Exception):
    """Leave with this code; everything that had to be said has been."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code
