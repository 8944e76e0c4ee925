"""One message in two forms: how long each is, and what it takes to write and to read it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Encoded:
    """``size`` is bytes; ``write_s`` and ``read_s`` are medians, in seconds."""

    size: int
    write_s: float
    read_s: float


@dataclass(frozen=True, slots=True)
class BothForms:
    json: Encoded
    protobuf: Encoded
