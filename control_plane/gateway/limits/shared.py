"""The counts that several gateways share: a Valkey or Redis server, and one script that does each step whole.

Steps are asked for with a callback and sent by one task, in their order, all that wait in one round trip. While the
server does not answer, every step is answered None at once and the ends of calls are kept, and it is tried again twice
a second; when it is back it hears of them, and of all calls that run. While nobody calls, it is looked at every two
seconds. Whoever asks hears something by a deadline, whatever becomes of the task. A call counts as running, and a
gateway as present, for half a minute after it was last heard of.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from control_plane.contracts.errors import SettingsError
from control_plane.gateway.limits.book import MINUTE_S
from control_plane.gateway.limits.rolling import SCRIPT, Reply, Step, Then, arguments, reply_of
from control_plane.gateway.limits.scope import Scope
from control_plane.tasks import Tasks

log = logging.getLogger(__name__)

TIMEOUT_S: Final = 0.1
_TRY_AGAIN_S: Final = 0.5
_LOOK_S: Final = 2.0
_PATIENCE: Final = 5
"""How many times longer a look at the server may take, for which nobody waits; and an answer in all, with the steps
before it."""

_BATCH: Final = 256
_UNSENT: Final = 100_000


@dataclass(frozen=True, slots=True)
class _Hold:
    """A call that has entered and not ended: what it has reserved, and when it did, or entered."""

    scopes: tuple[Scope, ...]
    reserved: int
    began_mono: float


class SharedCounts:
    """``errors``: how often the server did not answer; ``up``: whether it does. ``gateways``: how many share it, as the
    server said a few seconds ago, and ``gateways`` of the settings at least. ``name`` is this one's, unique among them.
    All on one event loop."""

    def __init__(
        self,
        url: str,
        *,
        name: str = "",
        gateways: int = 1,
        window_s: float = MINUTE_S,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        try:
            from valkey.asyncio import Valkey
        except ImportError:
            raise SettingsError(
                "limits.url: the client library of Valkey is not installed",
                param="limits.url",
                hint="pip install 'inferdeck[valkey]'",
            ) from None
        self._name = name or secrets.token_hex(8)
        self._fewest = gateways
        self._window_s = window_s
        self._timeout_s = timeout_s
        self._lease_s = window_s / 2
        self._server: Any = Valkey.from_url(url, socket_connect_timeout=timeout_s)
        self._sha = ""
        self._queue: list[Step] = []
        self._unsent: dict[tuple[str, str], Step] = {}
        self._holds: dict[str, _Hold] = {}
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False
        self.up = True
        self.up_since = time.monotonic() - window_s
        self.errors = 0
        self.gateways = gateways

    def start(self) -> None:
        self._queue.append(Step("present", self._name))
        kept = Tasks()
        self._tasks = [kept.keep(self._send_all, "limits"), kept.keep(self._renew, "leases")]

    async def stop(self) -> None:
        """What is asked for by now is still sent."""
        if self.up:
            sent: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            then = _by_deadline(lambda _: sent.set_result(None), self._timeout_s)
            self._queue.append(Step("leave", self._name, then=then))
            self._wake.set()
            await sent
        self._stopping = True
        for task in self._tasks:
            task.cancel()
        # A connection that is just being made may keep the cancellation to itself.
        await asyncio.wait(self._tasks, timeout=2 * self._timeout_s)
        await self._server.aclose()

    def ask(
        self, op: str, call: str, scopes: tuple[Scope, ...], tokens: int, then: Then | None, *, most: int = 0
    ) -> None:
        """``then`` hears the answer, never within this call while the server is up; None: there is none in time."""
        if then is not None:
            then = _by_deadline(then, _PATIENCE * self._timeout_s)
        now = time.monotonic()
        hold = self._holds.get(call)
        if op == "settle":
            self._holds.pop(call, None)
        elif op in ("enter", "reserve"):
            # Refused, it is settled.
            hold = self._holds[call] = _Hold(scopes, tokens if op == "reserve" else 0, now)
        reserved, began_mono = (hold.reserved, hold.began_mono) if hold is not None else (0, now)
        step = Step(op, call, scopes, tokens, max(most, tokens), reserved, began_mono, now, then)
        if self.up:
            self._queue.append(step)
            self._wake.set()
        else:
            self._unanswered(step)

    async def _send_all(self) -> None:
        while not self._stopping:
            if not self.up:
                await asyncio.sleep(_TRY_AGAIN_S)
            elif not self._queue and self._sha:
                self._wake.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), _LOOK_S)
            batch, self._queue = self._queue[:_BATCH], self._queue[_BATCH:]
            try:
                async with asyncio.timeout(self._timeout_s if batch else _PATIENCE * self._timeout_s):
                    answers = await self._send(batch)
                replies = [self._read(step, answer) for step, answer in zip(batch, answers, strict=True)]
            except asyncio.CancelledError:
                raise
            except Exception as error:
                self._failed(batch, error)
                continue
            if not self.up:
                self._back()
            for step, reply in zip(batch, replies, strict=True):
                self._tell(step, reply)

    async def _send(self, batch: Sequence[Step]) -> list[Any]:
        """The script's answers. With nothing to send it looks whether the server is there."""
        if not self._sha:
            self._sha = await self._server.script_load(SCRIPT)
        elif not batch and not (await self._server.script_exists(self._sha))[0]:
            await self._started_anew()
        answers = await self._evaluate(batch)
        if any(type(answer).__name__ == "NoScriptError" for answer in answers):
            await self._started_anew()  # none of them ran
            answers = await self._evaluate(batch)
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers

    async def _started_anew(self) -> None:
        """It knows the script no more: it may have forgotten everything."""
        self.up_since = time.monotonic()
        self._sha = await self._server.script_load(SCRIPT)
        # After what waits to be sent: what is renewed has been asked for before.
        self._queue += self._all_that_is()

    async def _evaluate(self, batch: Sequence[Step]) -> list[Any]:
        if not batch:
            return []
        if len(batch) == 1:
            try:
                return [await self._server.evalsha(self._sha, *self._arguments(batch[0]))]
            except Exception as error:
                return [error]
        pipeline = self._server.pipeline(transaction=False)
        for step in batch:
            pipeline.evalsha(self._sha, *self._arguments(step))
        return await cast(Awaitable[list[Any]], pipeline.execute(raise_on_error=False))

    def _arguments(self, step: Step) -> list[Any]:
        return arguments(step, time.monotonic(), window_s=self._window_s, lease_s=self._lease_s)

    def _read(self, step: Step, answer: Sequence[int]) -> Reply:
        if not step.scopes:
            self.gateways = max(self._fewest, int(answer[0]))
            return Reply(())
        return reply_of(step, answer)

    def _failed(self, batch: Sequence[Step], error: Exception) -> None:
        self.errors += 1
        self._sha = ""
        if self.up:
            self.up = False
            log.warning(
                "the store of limits does not answer",
                extra={"error": type(error).__name__, "gateways": self.gateways},
            )
        waiting, self._queue = [*batch, *self._queue], []
        for step in waiting:
            self._unanswered(step)

    def _unanswered(self, step: Step) -> None:
        if step.op in ("settle", "lower") and len(self._unsent) < _UNSENT:
            self._unsent[step.call, step.op] = step
        self._tell(step, None)

    def _back(self) -> None:
        """It answers again: first it hears which calls have ended meanwhile, then which run."""
        self.up = True
        self.up_since = time.monotonic()
        log.warning("the store of limits answers again")
        oldest = time.monotonic() - self._window_s - self._lease_s
        ends = [step for step in self._unsent.values() if step.asked_mono > oldest]
        self._queue = [*ends, *self._all_that_is(), *self._queue]
        self._unsent.clear()

    def _tell(self, step: Step, reply: Reply | None) -> None:
        if step.then is not None:
            try:
                step.then(reply)
            except Exception:
                log.exception("a call could not be told of its limits")

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._lease_s / 3)
            if self.up:
                self._queue += self._all_that_is()
                self._wake.set()

    def _all_that_is(self) -> list[Step]:
        """This gateway, and every call of it that runs."""
        calls = (
            Step("renew", call, hold.scopes, reserved=hold.reserved, began_mono=hold.began_mono)
            for call, hold in self._holds.items()
        )
        return [Step("present", self._name), *calls]


def _by_deadline(then: Then, seconds: float) -> Then:
    """Heard once: the first answer, or None when so many seconds have passed without one."""
    waiting = [then]

    def told(reply: Reply | None) -> None:
        alarm.cancel()
        while waiting:
            waiting.pop()(reply)

    alarm = asyncio.get_running_loop().call_later(seconds, told, None)
    return told
