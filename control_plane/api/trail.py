"""What operators do to the fleet, into the audit.

It is done by then: a store that does not answer undoes nothing, and an operator who has left is written down too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from control_plane.api.caller import caller
from control_plane.contracts.access import Actor
from control_plane.contracts.errors import InferDeckError, RequestRefused, RequestTimeout
from control_plane.contracts.fleet import ActionResult
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

    async def of(
        self,
        work: Awaitable[ActionResult],
        action: str,
        target: str,
        before: Mapping[str, Any],
        after: Mapping[str, Any],
        *,
        dry_run: bool,
    ) -> ActionResult:
        """What came of the work, once that is stored where it changed something, or may have."""
        async with self.unfinished(action, target, before, dry_run=dry_run):
            result = await work
        if result.changed and not dry_run:
            await self.left(action, target, before, after)
        return result

    @asynccontextmanager
    async def unfinished(
        self, action: str, target: str, before: Mapping[str, Any], *, dry_run: bool
    ) -> AsyncIterator[None]:
        """What is done within comes to its end, or is stored with what became of it: nobody knows how much of it was
        done. What was refused was not done at all."""
        try:
            yield
        except BaseException as error:
            refused = isinstance(error, RequestRefused) and not isinstance(error, RequestTimeout)
            if not (dry_run or refused):
                await self.left(action, target, before, {"ended": _ended(error)})
            raise

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


def _ended(error: BaseException) -> str:
    if isinstance(error, asyncio.CancelledError):
        return "broken off: the control plane ended"
    return error.message if isinstance(error, InferDeckError) else type(error).__name__
