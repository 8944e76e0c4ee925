"""Failures that a simulated engine can be given: on purpose, at a known time, for as long as it takes to learn.

Times are seconds, ``now`` on one monotonic clock; nothing here has a clock of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Self

from control_plane.contracts.errors import SettingsError


class FailureKind(StrEnum):
    CRASH = "crash"  # the worker's process dies without a word
    ENGINE_DIES = "engine_dies"  # the engine dies, the worker lives to tell
    STALL = "stall"  # no step ends
    SLOW = "slow"  # steps take ``factor`` times as long
    DROP_STEPS = "drop_steps"  # steps are not told, only counted as dropped
    FREEZE_LOAD = "freeze_load"  # the load that is told is that of the beginning


@dataclass(frozen=True, slots=True)
class Failure:
    """``after_s`` until it begins, ``for_s`` until it is over (0: it stays). ``factor`` is of SLOW."""

    kind: FailureKind
    after_s: float = 0.0
    for_s: float = 0.0
    factor: float = 2.0

    def __post_init__(self) -> None:
        for name in ("after_s", "for_s"):
            if not 0 <= getattr(self, name) < 1e9:
                raise SettingsError(f"{name} of a failure must be 0 or more seconds", param=name)
        if not 0.01 <= self.factor <= 1e6:
            raise SettingsError(f"factor of a failure must be 0.01 to 1000000, not {self.factor:g}", param="factor")

    @classmethod
    def read(cls, values: Any) -> Self:
        """From a table, as settings have it. Raises SettingsError."""
        if isinstance(values, str):
            values = {"kind": values}
        if not isinstance(values, dict):
            raise SettingsError(f"a failure is a table with a kind, not {values!r}", param="failures")
        known = [field.name for field in fields(cls)]
        if unknown := sorted(set(values) - set(known)):
            raise SettingsError(f"a failure has no {unknown[0]!r}; it has {', '.join(known)}", param="failures")
        kinds = [kind.value for kind in FailureKind]
        if values.get("kind") not in kinds:
            raise SettingsError(
                f"no failure {values.get('kind')!r}; there are {', '.join(kinds)}", param="failures.kind"
            )
        for name in ("after_s", "for_s", "factor"):
            if isinstance(values.get(name, 0), bool) or not isinstance(values.get(name, 0), int | float):
                raise SettingsError(f"{name} of a failure can't be {values[name]!r}", param=f"failures.{name}")
        return cls(**{**values, "kind": FailureKind(values["kind"])})


class Failures:
    """What fails now."""

    def __init__(self) -> None:
        self._spans: list[tuple[float, float, Failure]] = []

    def add(self, failure: Failure, now: float) -> None:
        begin = now + failure.after_s
        self._spans.append((begin, begin + failure.for_s if failure.for_s else math.inf, failure))

    def clear(self) -> None:
        self._spans.clear()

    def active(self, now: float) -> tuple[Failure, ...]:
        """Those that have begun and are not over; what is over is forgotten."""
        if not self._spans:
            return ()
        self._spans = [span for span in self._spans if span[1] > now]
        return tuple(failure for begin, _, failure in self._spans if begin <= now)

    def on(self, kind: FailureKind, now: float) -> bool:
        return bool(self._spans) and any(failure.kind is kind for failure in self.active(now))

    def slowness(self, now: float) -> float:
        """How many times as long a step takes."""
        if not self._spans:
            return 1.0
        return math.prod(failure.factor for failure in self.active(now) if failure.kind is FailureKind.SLOW)
