"""A message that many ask for: built once for all of them between two changes of the fleet."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from control_plane.fleet.changes import Changes

KEPT_S: Final = 0.25
"""How long a built message is good when nothing changes: ages in it go on."""

_Message = TypeVar("_Message")


class Kept(Generic[_Message]):
    """``clock`` in seconds."""

    def __init__(
        self, changes: Changes, build: Callable[[], _Message], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._changes = changes
        self._build = build
        self._clock = clock
        self._built: tuple[int, float, _Message] | None = None

    def get(self) -> _Message:
        """The same one as before, unless it is too old or something has changed since it was built."""
        revision, now = self._changes.revision, self._clock()
        if self._built is None or self._built[0] != revision or now - self._built[1] > KEPT_S:
            self._built = (revision, now, self._build())
        return self._built[2]
