"""The shape of traffic: how long prompts and answers are, and when calls start. Everything comes from one seed."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from control_plane.contracts.errors import InvalidRequest

_FIXED = re.compile(r"(\d+)")
_UNIFORM = re.compile(r"(\d+)(?:-|\.\.)(\d+)")
_LOGNORMAL = re.compile(r"lognormal:(\d+(?:\.\d+)?),(\d+(?:\.\d+)?)")
LONGEST = 1_000_000


@dataclass(frozen=True, slots=True)
class Length:
    """A number of tokens, drawn anew for each call.

    Written ``128`` (fixed), ``64-256`` (uniform, both ends included) or ``lognormal:128,0.5`` (median, sigma).
    """

    low: int = 0
    high: int = 0
    median: float = 0.0
    sigma: float = 0.0

    @classmethod
    def parse(cls, text: str, option: str) -> Length:
        """Raises InvalidRequest that names the option."""
        text = text.strip()
        if match := _FIXED.fullmatch(text) or _UNIFORM.fullmatch(text):
            low, high = int(match[1]), int(match[match.lastindex or 1])
            made, fits = cls(low, high), 1 <= low <= high <= LONGEST
        elif match := _LOGNORMAL.fullmatch(text):
            made = cls(1, LONGEST, float(match[1]), float(match[2]))
            fits = 1 <= made.median <= LONGEST
        else:
            raise InvalidRequest(
                f"{option}: {text!r} is no length; write 128, 64-256 or lognormal:128,0.5", param=option
            )
        if not fits:
            raise InvalidRequest(f"{option}: {text!r} must go from low to high within 1 to {LONGEST:,}", param=option)
        return made

    def draw(self, random: Random) -> int:
        if not self.median:
            return random.randint(self.low, self.high)
        return min(self.high, max(self.low, round(self.median * math.exp(random.gauss(0.0, self.sigma)))))


def arrivals(rate: float, *, poisson: bool, random: Random) -> Iterator[float]:
    """Start times in seconds after the start, ``rate`` a second: at random (Poisson) or evenly spaced."""
    at = 0.0
    while True:
        yield at
        at += random.expovariate(rate) if poisson else 1.0 / rate
