"""Checks: a measure within bounds. Pure: an observation in, a verdict with its reason out."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from control_plane.contracts.sizing.quantity import in_bytes
from lessons.measures import Measure
from lessons.observation import Observation, Value

_SAID = {"at_least": "at least", "at_most": "at most", "above": "more than", "below": "less than"}


@dataclass(frozen=True, slots=True)
class Bounds:
    """All that are given have to hold. A number is compared as it is measured: a share of one half is 0.5."""

    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None
    below: float | None = None
    equals: Value | None = None

    @property
    def given(self) -> bool:
        return any(getattr(self, field.name) is not None for field in fields(self))

    def hold(self, value: Value | None) -> bool:
        """What is unknown is within no bounds."""
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return False
        if self.equals is not None and value != self.equals:
            return False
        if isinstance(value, str):
            return self.equals is not None
        return (
            (self.at_least is None or value >= self.at_least)
            and (self.at_most is None or value <= self.at_most)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )

    def told(self, unit: str = "") -> str:
        parts = [f"{said} {shown(getattr(self, name), unit)}" for name, said in _SAID.items() if _has(self, name)]
        if self.equals is not None:
            parts.append(shown(self.equals, unit))
        return " and ".join(parts)


def _has(bounds: Bounds, name: str) -> bool:
    return getattr(bounds, name) is not None


@dataclass(frozen=True, slots=True)
class Expect:
    """A check as a lesson writes it. ``says`` is what it is about, for people; ``unit`` is what its bounds are in."""

    measure: Measure
    bounds: Bounds
    says: str
    unit: str = ""

    def verdict(self, seen: Observation) -> Verdict:
        value = self.measure.read(seen)
        return Verdict(self.says, self.bounds.hold(value), value, self.bounds, self.unit)


@dataclass(frozen=True, slots=True)
class Verdict:
    says: str
    holds: bool
    value: Value | None
    bounds: Bounds
    unit: str

    @property
    def reason(self) -> str:
        """Like "is 0.98, should be at most 0.5"."""
        if self.value is None:
            return f"nothing was measured, should be {self.bounds.told(self.unit)}"
        return f"is {shown(self.value, self.unit)}, should be {self.bounds.told(self.unit)}"


def shown(value: Value | None, unit: str = "") -> str:
    """A value as people read it; an en dash where there is none."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if unit == "%":
        return f"{value * 100:.0f} %"
    if unit == "s":
        if 0 < abs(value) < 1e-3:
            return f"{value * 1e6:.3g} µs"
        return f"{value * 1e3:.3g} ms" if abs(value) < 1 else f"{value:.3g} s"
    number = f"{value:,.0f}" if value == round(value) or abs(value) >= 1000 else f"{value:.3g}"
    if unit == "B":
        return in_bytes(value)
    if unit == "times":
        return f"{number} ×"
    if unit == "×":
        return f"{number}-fold"
    return f"{number} {unit[:-1] if unit.endswith('s') and value == 1 else unit}".rstrip()
