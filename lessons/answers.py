"""What a learner types, read and judged. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from string import ascii_lowercase
from typing import Final

from control_plane.contracts.errors import InvalidRequest
from lessons.actions import POOL
from lessons.checks import shown
from lessons.model import Option, Predict, Quiz
from lessons.observation import Value

WORKER: Final = re.compile(rf"{POOL}-\d+")
_NUMBER: Final = re.compile(r"([-+]?[\d.,]*\d[\d.,]*(?:e[-+]?\d+)?)\s*(\D*)")
_GROUPED: Final = re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?(e[-+]?\d+)?")
_DECIMAL_COMMA: Final = re.compile(r"[-+]?(\d*|[1-9]\d{0,2}(\.\d{3})+),\d+(e[-+]?\d+)?")
_TIMES: Final = ("×", "x", "times", "fold", "-fold")
_UNITS: Final[Mapping[str, Mapping[str, float]]] = {
    "s": {"": 1, "s": 1, "sec": 1, "second": 1, "seconds": 1, "ms": 1e-3, "µs": 1e-6, "us": 1e-6, "ns": 1e-9},
    "%": {"": 0.01, "%": 0.01, "percent": 0.01},
    "B": {
        "": 1,
        "b": 1,
        "byte": 1,
        "bytes": 1,
        "kb": 1e3,
        "mb": 1e6,
        "gb": 1e9,
        "tb": 1e12,
        "kib": 2**10,
        "mib": 2**20,
        "gib": 2**30,
        "tib": 2**40,
    },
    "×": {"": 1, **dict.fromkeys(_TIMES, 1)},
    "times": {"": 1, **dict.fromkeys(_TIMES, 1)},
}
"""What each unit of measures may be typed as, in lower case, with how many of the unit it is."""


class Misread(InvalidRequest):
    """What was typed is no answer to what was asked; the message says what would be."""


class Score(StrEnum):
    """How a prediction did against what was measured; UNKNOWN where nothing was."""

    RIGHT = "right"
    CLOSE = "close"
    OFF = "off"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A prediction beside what was measured. ``right`` says in words what would have been right."""

    predicted: str
    measured: Value | None
    score: Score
    right: str


LONGEST: Final = 32
"""Characters of a number with its unit."""


def letter(index: int) -> str:
    return ascii_lowercase[index]


def read_answer(step: Predict | Quiz, text: str) -> Value:
    """The number (a share as a fraction), the letter of the option, or the worker's id. Raises Misread."""
    typed = text.strip().lower()
    if isinstance(step, Quiz) or step.asks == "choice":
        letters = [letter(index) for index in range(len(step.options))]
        if typed not in letters:
            raise Misread(f"{text.strip()!r:.40} is none of the answers: {', '.join(letters)}")
        return typed
    if step.asks == "worker":
        if not WORKER.fullmatch(typed):
            raise Misread(f"{text.strip()!r:.40} is no worker: they are {POOL}-1, {POOL}-2, …")
        return typed
    number = _number(typed, step.unit)
    if math.isfinite(number):
        return number
    if "," in typed and math.isfinite(_number(typed.replace(",", "").replace(".", ""), step.unit)):
        raise Misread(f"{text.strip()!r:.40} can be read in several ways: type it without commas, like 1200 or 0.5")
    raise Misread(f"{text.strip()!r:.40} is no number" + (f" ({step.unit})" if step.unit else ""))


def _number(typed: str, unit: str) -> float:
    """In the unit, whichever of its names stands behind; NaN for what is none."""
    found = _NUMBER.fullmatch(typed) if len(typed) <= LONGEST else None
    if found is None:
        return math.nan
    plain, named = _point(found[1]), found[2].strip().replace("μ", "µ")
    known = _UNITS.get(unit)
    # Of what is counted its name, or the beginning of it: tokens, token, tok.
    size = known.get(named, math.nan) if known is not None else 1 if unit.lower().startswith(named) else math.nan
    try:
        return float(plain) * size
    except ValueError:
        return math.nan


def _point(typed: str) -> str:
    """With a point before its decimals, and nothing between thousands. "1,200" is read as lessons write it: twelve
    hundred; any other single comma is a decimal one: "0,5", "1,25". What is neither stays as it is, and is no number.
    """
    if _GROUPED.fullmatch(typed):
        return typed.replace(",", "")
    if _DECIMAL_COMMA.fullmatch(typed):
        return typed.replace(".", "").replace(",", ".")
    return typed


def right_option(step: Quiz) -> int:
    return next(index for index, option in enumerate(step.options) if option.right)


def outcome(step: Predict, text: str, measured: Value | None) -> Outcome:
    """How a committed answer did; an empty one was skipped and is OFF, since what was right is still told."""
    answer = read_answer(step, text) if text else None
    said = _said(step, answer)
    if measured is None:
        return Outcome(said, None, Score.UNKNOWN, "")
    if step.asks == "choice":
        fitting = [index for index, option in enumerate(step.options) if option.bounds.hold(measured)]
        right = " or ".join(f"{letter(index)}) {step.options[index].text}" for index in fitting)
        hit = answer in [letter(index) for index in fitting]
        return Outcome(said, measured, Score.RIGHT if hit else Score.OFF, right or "none of these")
    right = shown(measured, step.unit)
    if said == right:
        return Outcome(said, measured, Score.RIGHT, right)
    if isinstance(answer, float) and isinstance(measured, float):
        if step.within and _as_written(text, answer, measured):
            return Outcome(said, measured, Score.RIGHT, right)
        return Outcome(said, measured, _near(answer, measured, step.within), right)
    return Outcome(said, measured, Score.RIGHT if answer == measured else Score.OFF, right)


def _as_written(text: str, answer: float, measured: float) -> bool:
    """Whether it is what was measured, rounded to the digits that were typed, two at least: 21 ms of 21.2."""
    found = _NUMBER.fullmatch(text.strip().lower())
    digits = len(re.sub(r"\D", "", found[1].partition("e")[0]).lstrip("0")) if found is not None else 0
    return digits > 1 and math.isclose(float(f"{measured:.{digits}g}"), answer, rel_tol=1e-9)


def _near(answer: float, measured: float, within: float) -> Score:
    if math.isclose(answer, measured, rel_tol=1e-3, abs_tol=1e-9):
        return Score.RIGHT
    return Score.CLOSE if abs(answer - measured) <= within * abs(measured) else Score.OFF


def _said(step: Predict, answer: Value | None) -> str:
    if answer is None:
        return "skipped"
    if step.asks == "choice":
        option: Option = step.options[ascii_lowercase.index(str(answer))]
        return f"{answer}) {option.text}"
    return shown(answer, step.unit)
