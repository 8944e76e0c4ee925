"""What operators do to the fleet, into the audit.

It is done by then: a store that does not answer undoes nothing, and an operator who has left is written down too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from control_plane.api.caller import caller
from control_plane.contracts.access import Actor
from control_plane.store import Audit

_PATIENCE_S: Final = 5.0

log = logging.getLogger(__name__)


class Trail:
    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._writing: set[asyncio.Task[None]] = set()

    async def left(self, action: str, target: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        """The caller of now has done this. Where it cannot be stored, the log has it. Cancelled, it is stored all the
        same."""
        writing = asyncio.get_running_loop().create_task(self._write(caller().actor, action, target, before, after))
        self._writing.add(writing)
        writing.add_done_callback(self._writing.discard)
        await asyncio.shield(writing)

    async def written(self) -> None:
        """Return when all that was begun is."""
        await asyncio.gather(*self._writing)

    async def _write(
        self, actor: Actor, action: str, target: str, before: Mapping[str, Any], after: Mapping[str, Any]
    ) -> None:
        try:
            await asyncio.wait_for(
                asyncio.to_thread(self._audit.add, actor, action, target, before, after), _PATIENCE_S
            )
        except Exception as error:
            extra = {"actor": actor.id, "action": action, "target": target, "before": before, "after": after}
            log.error("a write could not be audited: %s", type(error).__name__, extra=extra)
