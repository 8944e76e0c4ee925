"""What is reported of the prefix index: a few endpoints with each report, and only where there is news."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from control_plane.contracts.kv_belief import KvBelief
from control_plane.router.targets import Targets

MOST: Final = 64
"""Endpoints that one report looks at: with more of them, each has its turn."""

AGAIN_S: Final = 10.0
"""What is old news is told again so often: the control plane may be another one."""


class Beliefs:
    def __init__(self, targets: Targets) -> None:
        self._targets = targets
        self._told: dict[str, tuple[KvBelief, float]] = {}
        self._next = 0

    def take(self, now: float) -> tuple[KvBelief, ...]:
        """The news since the last time; ``now`` is monotonic."""
        targets = self._targets.all()
        if len(self._told) > 2 * len(targets):
            self._told.clear()
        begin = self._next if self._next < len(targets) else 0
        self._next = begin + MOST
        news = []
        for target in targets[begin : begin + MOST]:
            belief = target.belief()
            last, at = self._told.get(target.worker_id, (None, 0.0))
            # That it was heard again with nothing changed is no news by itself.
            if last is None or now - at >= AGAIN_S or replace(belief, heard_unix=last.heard_unix) != last:
                self._told[target.worker_id] = belief, now
                news.append(belief)
        return tuple(news)

    def put_back(self, beliefs: Sequence[KvBelief]) -> None:
        """They were not heard."""
        for belief in beliefs:
            self._told.pop(belief.worker_id, None)
