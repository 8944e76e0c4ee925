"""The counts that several gateways share: a Valkey or Redis server, and one script that does each step whole.

Steps are asked for with a callback and sent by one task, in their order, all that wait in one round trip. While the
server does not answer, every step is answered None at once, the ends of calls are kept for its return, and it is tried
again twice a second; while nobody calls, it is looked at every two seconds. Whoever asks hears something by a deadline,
whatever becomes of the task. A call counts as running for half a minute after its gateway was last heard of.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.resources
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import quote

from control_plane.contracts.errors import SettingsError
from control_plane.gateway.limits.book import MINUTE_S
from control_plane.gateway.limits.scope import Scope
from control_plane.gateway.limits.verdict import BUSY_S, Refusal, Standing
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
_FACTS: Final = 7
_SCRIPT: Final = importlib.resources.files(__package__).joinpath("rolling.lua")

GIVE_BACK: Final = -1


@dataclass(frozen=True, slots=True)
class Reply:
    """``refusal`` None: it is done."""

    standings: tuple[Standing, ...]
    refusal: Refusal | None = None


Then = Callable[[Reply | None], None]


@dataclass(frozen=True, slots=True)
class Step:
    """``op`` is a word of the script: enter, reserve, settle, renew or look."""

    op: str
    call: str
    scopes: tuple[Scope, ...]
    tokens: int = 0
    most: int = 0
    asked_mono: float = 0.0
    then: Then | None = None


class SharedCounts:
    """``errors``: how often the server did not answer; ``up``: whether it does. All on one event loop."""

    def __init__(self, url: str, *, window_s: float = MINUTE_S, timeout_s: float = TIMEOUT_S) -> None:
        try:
            from valkey.asyncio import Valkey
        except ImportError:
            raise SettingsError(
                "limits.url: the client library of Valkey is not installed",
                param="limits.url",
                hint="pip install 'inferdeck[valkey]'",
            ) from None
        self._window_s = window_s
        self._timeout_s = timeout_s
        self._lease_s = window_s / 2
        self._server: Any = Valkey.from_url(url, socket_connect_timeout=timeout_s)
        self._script = _SCRIPT.read_text()
        self._sha = ""
        self._queue: list[Step] = []
        self._unsent: dict[str, Step] = {}
        self._running: dict[str, Step] = {}
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False
        self.up = True
        self.up_since = time.monotonic() - window_s
        self.errors = 0

    def start(self) -> None:
        kept = Tasks()
        self._tasks = [kept.keep(self._send_all, "limits"), kept.keep(self._renew, "leases")]

    async def stop(self) -> None:
        """What is asked for by now is still sent."""
        for _ in range(10):
            if not (self.up and self._queue):
                break
            await asyncio.sleep(self._timeout_s / 10)
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
        step = Step(op, call, scopes, tokens, max(most, tokens), time.monotonic(), then)
        if op == "settle":
            self._running.pop(call, None)
        elif op != "look" and any(scope.limits.concurrency is not None for scope in scopes):
            self._running[call] = step
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
                replies = [_reply(step, answer) for step, answer in zip(batch, answers, strict=True)]
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
            self._sha = await self._server.script_load(self._script)
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
        self._sha = await self._server.script_load(self._script)

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
        keys: list[Any] = []
        limits: list[Any] = []
        for scope in step.scopes:
            # The part in braces decides the slot: a key and its tenant are asked together.
            name = f"inferdeck:limits:{{{quote(scope.tenant, safe='')}}}:{quote(scope.name, safe=':')}"
            keys += (f"{name}:charges", f"{name}:tokens", f"{name}:running")
            bounds = (scope.limits.rpm, scope.limits.tpm, scope.limits.concurrency)
            limits += (-1 if bound is None else bound for bound in bounds)
        window, lease = int(self._window_s * 1e6), int(self._lease_s * 1e6)
        return [len(keys), *keys, step.op, step.call, step.tokens, step.most, window, lease, *limits]

    def _failed(self, batch: Sequence[Step], error: Exception) -> None:
        self.errors += 1
        self._sha = ""
        if self.up:
            self.up = False
            log.warning("the store of limits does not answer", extra={"error": type(error).__name__})
        waiting, self._queue = [*batch, *self._queue], []
        for step in waiting:
            self._unanswered(step)

    def _unanswered(self, step: Step) -> None:
        if step.op == "settle" and len(self._unsent) < _UNSENT:
            self._unsent[step.call] = step
        self._tell(step, None)

    def _back(self) -> None:
        """It answers again: first it hears which calls have ended meanwhile."""
        self.up = True
        self.up_since = time.monotonic()
        log.warning("the store of limits answers again")
        oldest = time.monotonic() - self._window_s - self._lease_s
        self._queue = [step for step in self._unsent.values() if step.asked_mono > oldest] + self._queue
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
            for step in tuple(self._running.values()):
                if self.up:
                    self._queue.append(Step("renew", step.call, step.scopes))
                    self._wake.set()


def _by_deadline(then: Then, seconds: float) -> Then:
    """Heard once: the first answer, or None when so many seconds have passed without one."""
    waiting = [then]

    def told(reply: Reply | None) -> None:
        alarm.cancel()
        while waiting:
            waiting.pop()(reply)

    alarm = asyncio.get_running_loop().call_later(seconds, told, None)
    return told


def _reply(step: Step, answer: Sequence[int]) -> Reply:
    """Raises TypeError or ValueError for what the script does not say."""
    done, *facts = map(int, answer)
    standings, refusals = [], []
    for index, scope in enumerate(step.scopes):
        requests, tokens, running, reset, for_requests, for_tokens, busy = facts[index * _FACTS : (index + 1) * _FACTS]
        standings.append(Standing(requests, tokens, reset / 1e6))
        if done:
            continue
        if for_requests:
            refusals.append(Refusal(scope, "rpm", requests, 1, for_requests / 1e6 if for_requests > 0 else None))
        if for_tokens:
            refusals.append(Refusal(scope, "tpm", tokens, step.tokens, for_tokens / 1e6 if for_tokens > 0 else None))
        if busy:
            refusals.append(Refusal(scope, "concurrency", running, 1, BUSY_S if scope.limits.concurrency else None))
    return Reply(tuple(standings), max(refusals, key=lambda refusal: refusal.longest) if refusals else None)
