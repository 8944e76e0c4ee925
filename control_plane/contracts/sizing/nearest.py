"""The names that come closest to one that is not known."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """At most ``count`` of the known names, closest first; never none while there are any."""
    names = list(known)
    wanted = _plain(name)

    def distance(candidate: str) -> tuple[float, int]:
        other = _plain(candidate)
        alike = difflib.SequenceMatcher(None, wanted, other).ratio()
        begins = 0.5 if wanted and (other.startswith(wanted) or wanted in other) else 0.0
        return -(alike + begins), names.index(candidate)

    return sorted(names, key=distance)[:count]


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.rsplit("/", 1)[-1].lower())
