"""What operators do to the fleet, into the audit.

It is done by then, and a store that does not answer undoes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from control_plane.api.caller import caller
from control_plane.store import Audit

_PATIENCE_S: Final = 5.0

log = logging.getLogger(__name__)


class Trail:
    def __init__(self, audit: Audit) -> None:
        self._audit = audit

    async def left(self, action: str, target: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        """The caller of now has done this. Where it cannot be stored, the log has it."""
        actor = caller().actor
        writing = asyncio.to_thread(self._audit.add, actor, action, target, before, after)
        try:
            await asyncio.wait_for(writing, _PATIENCE_S)
        except Exception as error:
            extra = {"actor": actor.id, "action": action, "target": target, "before": before, "after": after}
            log.error("a write could not be audited: %s", type(error).__name__, extra=extra)
