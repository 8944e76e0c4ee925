"""Carries out an order that was confirmed, and asks what one would do. It posts, and touches no widget."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from textual.message import Message

from console.at_once import at_once
from console.tui.collector import closing, one_call
from console.tui.feed import Operator
from console.tui.messages import DrainEnded, DrainMoved, Previewed, Stepped, Told
from console.tui.order import Order, Target, Verb
from control_plane.contracts.errors import InferDeckError
from control_plane.contracts.fleet import ActionResult
from control_plane.contracts.step import TraceMode

Post = Callable[[Message], object]

_MOST_TOLD: Final = 3
"""Targets that are told one by one."""


async def carry_out(order: Order, operator: Operator, post: Post) -> None:
    """Do it to every target; each result, good or bad, is told."""
    if order.verb is Verb.DRAIN:
        await asyncio.gather(*(_drain(target.id, operator, post) for target in order.targets))
        return
    tally = _Tally(order, post)

    async def one(target: Target) -> None:
        try:
            with one_call():
                result = await _act(order, target.id, operator, dry_run=False)
        except InferDeckError as error:
            post(Told(f"{order.verb.value} {target.id}: {_words(error)}", "error"))
        else:
            tally.done(result.message or f"{order.verb.value} {target.id}: done")

    tally.begin()
    try:
        await at_once(one, order.targets)
    finally:
        tally.end()


class _Tally:
    """How far an order has come: a word for each target or, of more than ``_MOST_TOLD``, a count that goes up."""

    def __init__(self, order: Order, post: Post) -> None:
        self._order, self._post = order, post
        self._one_by_one = len(order.targets) <= _MOST_TOLD
        self._done = 0

    def begin(self) -> None:
        if not self._one_by_one:
            self._tell("progress")

    def done(self, words: str) -> None:
        self._done += 1
        if self._one_by_one:
            self._post(Told(words, "info"))
        else:
            self._tell("progress")

    def end(self) -> None:
        """A count that does not stay: nothing comes any more."""
        if not self._one_by_one:
            self._tell("info" if self._done == len(self._order.targets) else "warning")

    def _tell(self, severity: str) -> None:
        title, many = self._order.title, len(self._order.targets)
        self._post(Told(f"{title}: {self._done} of {many} done", severity, f"order {id(self._order)}"))


async def preview(order: Order, operator: Operator, post: Post) -> None:
    """The platform's own plan, from the same call that would do it."""

    async def one(target: Target) -> list[str]:
        with one_call():
            return await _plan(order, target.id, operator)

    try:
        said = [message for messages in await at_once(one, order.targets) for message in messages]
    except InferDeckError as error:
        post(Previewed(order, _words(error), failed=True))
    else:
        post(Previewed(order, "; ".join(dict.fromkeys(message for message in said if message)) or "agrees"))


async def _plan(order: Order, target: str, operator: Operator) -> list[str]:
    if order.verb is Verb.DRAIN:
        async with closing(operator.drain(target, dry_run=True)) as stream:
            return [progress.message async for progress in stream]
    result = await _act(order, target, operator, dry_run=True)
    if order.verb is Verb.SCALE and result.affected:
        held = f", {result.in_flight} in flight there" if result.in_flight else ""
        return [f"{result.message}: {', '.join(result.affected)}{held}"]
    return [result.message]


async def set_trace(worker_id: str, mode: TraceMode, every: int, operator: Operator, post: Post) -> None:
    """Trace from the next step on; how it stands then is posted."""
    try:
        with one_call():
            state = await operator.set_trace(worker_id, mode, every)
    except InferDeckError as error:
        post(Told(f"trace of {worker_id}: {_words(error)}", "error"))
    else:
        post(Stepped(worker_id, trace=state))


def _words(error: InferDeckError) -> str:
    return f"{error.message} (try: {error.hint})" if error.hint else error.message


async def _act(order: Order, target: str, operator: Operator, *, dry_run: bool) -> ActionResult:
    match order.verb:
        case Verb.CORDON:
            return await operator.cordon(target, dry_run=dry_run)
        case Verb.UNCORDON:
            return await operator.uncordon(target, dry_run=dry_run)
        case Verb.SCALE:
            return await operator.scale(target, order.replicas, dry_run=dry_run)
        case Verb.CANCEL:
            return await operator.cancel(target, dry_run=dry_run)
        case Verb.DRAIN:
            raise AssertionError("a drain is a stream")


async def _drain(worker_id: str, operator: Operator, post: Post) -> None:
    done = False
    try:
        with one_call():
            async with closing(operator.drain(worker_id)) as stream:
                async for progress in stream:
                    post(DrainMoved(progress))
                    done = progress.done or progress.timed_out
    except InferDeckError as error:
        post(DrainEnded(worker_id, _words(error)))
    else:
        if not done:
            post(DrainEnded(worker_id, "the platform stopped telling; the worker stays cordoned"))
