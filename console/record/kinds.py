"""What a recording holds. Numbers stay for ever; a reader leaves out those that it does not know."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Kind(IntEnum):
    SESSION = 1
    """JSON ``Session``: a recorder begins, at the top of the file and wherever it was gone on with."""
    SNAPSHOT = 2
    """protobuf ``Snapshot``, whole."""
    CHANGES = 3
    """A ``Snapshot`` as changes to the one before it: see ``changes``."""
    STEPS = 4
    """protobuf ``StepFrame`` of the worker that ``subject`` names."""
    EVENT = 5
    """protobuf ``Event``."""
    GAP = 6
    """JSON ``Gap``: from here on nothing is known of ``subject`` ("" is the platform, ``EVENTS`` what happens)."""
    END = 7
    """JSON ``End``: the recorder ended well, and says why."""
    TABLES = 8
    """protobuf ``StepFrame`` without steps, in keyframes: where the steps of the worker ``subject`` stand, for a reader
    that begins here. Who has read what came before knows it."""
    DECISION = 9
    """protobuf ``DecisionView`` of the request that ``subject`` names, with the best few of its candidates."""


@dataclass(frozen=True, slots=True)
class Record:
    """``unix`` is the recorder's clock in seconds, which never goes back within a file; ``kind`` is a number of
    ``Kind`` or of a newer version; ``subject`` names what it is about, at most 65,535 bytes of UTF-8."""

    kind: int
    unix: float
    payload: bytes = b""
    subject: str = ""
