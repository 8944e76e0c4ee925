"""Carries out an order that was confirmed, and asks what one would do. It posts, and touches no widget."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from textual.message import Message

from console.tui.collector import closing, one_call
from console.tui.feed import Operator
from console.tui.messages import DrainEnded, DrainMoved, Previewed, Stepped, Told
from console.tui.order import Order, Verb
from control_plane.contracts.errors import InferDeckError
from control_plane.contracts.fleet import ActionResult
from control_plane.contracts.step import TraceMode

Post = Callable[[Message], object]


async def carry_out(order: Order, operator: Operator, post: Post) -> None:
    """Do it to every target; each result, good or bad, is told."""
    if order.verb is Verb.DRAIN:
        await asyncio.gather(*(_drain(target.id, operator, post) for target in order.targets))
        return
    for target in order.targets:
        try:
            with one_call():
                result = await _act(order, target.id, operator, dry_run=False)
        except InferDeckError as error:
            post(Told(f"{order.verb.value} {target.id}: {_words(error)}", "error"))
        else:
            post(Told(result.message or f"{order.verb.value} {target.id}: done", "info"))


async def preview(order: Order, operator: Operator, post: Post) -> None:
    """The platform's own plan, from the same call that would do it."""
    said: list[str] = []
    try:
        for target in order.targets:
            with one_call():
                said += await _plan(order, target.id, operator)
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
