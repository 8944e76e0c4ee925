"""Failures that an engine can be given: on purpose, at a known time, for as long as it takes to learn."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from control_plane.contracts.errors import InvalidRequest


class FailureKind(StrEnum):
    CRASH = "crash"  # the worker's process dies without a word
    ENGINE_DIES = "engine_dies"  # the engine dies, the worker lives to tell
    STALL = "stall"  # no step ends
    SLOW = "slow"  # steps take ``factor`` times as long
    DROP_STEPS = "drop_steps"  # steps are not told, only counted as dropped
    DROP_EVENTS = "drop_events"  # KV events are lost, with their sequence numbers
    FREEZE_LOAD = "freeze_load"  # the load that is told is that of the beginning


DEADLY = frozenset((FailureKind.CRASH, FailureKind.ENGINE_DIES))


@dataclass(frozen=True, slots=True)
class Failure:
    """``after_s`` until it begins, ``for_s`` until it is over (0: it stays). ``factor`` is of SLOW.

    Raises InvalidRequest for numbers that are none.
    """

    kind: FailureKind
    after_s: float = 0.0
    for_s: float = 0.0
    factor: float = 2.0

    def __post_init__(self) -> None:
        for name in ("after_s", "for_s"):
            if not 0 <= getattr(self, name) < 1e9:
                raise InvalidRequest(f"{name} of a failure must be 0 or more seconds", param=name)
        if not 0.01 <= self.factor <= 1e6:
            raise InvalidRequest(f"factor of a failure must be 0.01 to 1000000, not {self.factor:g}", param="factor")


def failure_kind(word: str) -> FailureKind:
    """Raises InvalidRequest that names those that there are."""
    try:
        return FailureKind(word)
    except ValueError:
        raise InvalidRequest(f"no failure {word!r:.40}; there are {', '.join(FailureKind)}", param="kind") from None


def read_failure(values: Any) -> Failure:
    """From a kind, or a table with one. Raises InvalidRequest."""
    if isinstance(values, str):
        values = {"kind": values}
    if not isinstance(values, dict) or not isinstance(values.get("kind"), str):
        raise InvalidRequest(f"a failure is a table with a kind, not {values!r:.80}", param="failures")
    known = [field.name for field in fields(Failure)]
    if unknown := sorted(set(values) - set(known)):
        raise InvalidRequest(f"a failure has no {unknown[0]!r:.40}; it has {', '.join(known)}", param=unknown[0][:40])
    for name in known[1:]:
        if isinstance(values.get(name, 0), bool) or not isinstance(values.get(name, 0), int | float):
            raise InvalidRequest(f"{name} of a failure can't be {values[name]!r:.40}", param=name)
    return Failure(**{**values, "kind": failure_kind(values["kind"])})
