"""Where the last call of each session went. Pure.

A session is whatever the gateway says belongs together: a conversation, one end user of a tenant, or responses that
follow each other.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

KEPT_S: Final = 900.0
"""A session that was silent for so long has no home any more: what it had cached is probably gone."""

MOST: Final = 20_000


class Sessions:
    """Session → instance id. Bounded: the one that was silent longest goes first."""

    def __init__(self, kept_s: float = KEPT_S, most: int = MOST) -> None:
        self._kept_s = kept_s
        self._most = most
        self._homes: OrderedDict[str, tuple[str, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._homes)

    def home(self, session: str, now: float) -> str:
        """The instance that served it last; empty where there is none, or no session."""
        found = self._homes.get(session) if session else None
        return found[0] if found is not None and now - found[1] <= self._kept_s else ""

    def settle(self, session: str, instance_id: str, now: float) -> None:
        """It is served there now."""
        if not session:
            return
        homes = self._homes
        homes[session] = (instance_id, now)
        homes.move_to_end(session)
        while homes and (len(homes) > self._most or now - next(iter(homes.values()))[1] > self._kept_s):
            homes.popitem(last=False)
