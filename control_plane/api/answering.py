"""How methods of a service answer: errors of the tree become statuses, writes are finished, and streams end with
their operator."""

from __future__ import annotations

import contextlib
import functools
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar, cast

import grpc

from control_plane.api.caller import caller
from control_plane.api.readable import readable
from control_plane.contracts.errors import InferDeckError, InternalError, StoreFull, Unavailable
from control_plane.contracts.wire.status import abort_with
from control_plane.store.outage import cause_of, is_full, is_outage
from control_plane.tasks import Works

CHECK_EVERY_S: Final = 1.0
"""How often a stream that says something asks whether its operator still may hear it."""

Context = grpc.aio.ServicerContext[Any, Any]
_Request = TypeVar("_Request")
_Response = TypeVar("_Response")

log = logging.getLogger(__name__)


def unary(
    method: Callable[[Any, _Request, Context], Awaitable[_Response]],
) -> Callable[[Any, _Request, Context], Awaitable[_Response]]:
    """Errors of the tree become statuses; any other is logged and becomes an internal one."""

    @functools.wraps(method)
    async def answer(self: Any, request: _Request, context: Context) -> _Response:
        try:
            return await method(self, readable(request), context)
        except Exception as error:
            await abort_with(context, told(error, method.__name__))

    return answer


def write(
    method: Callable[[Any, _Request, Context], Coroutine[Any, Any, _Response]],
) -> Callable[[Any, _Request, Context], Awaitable[_Response]]:
    """Like ``unary``; what the method has begun goes on when its operator is gone. ``self.works`` does it."""

    @functools.wraps(method)
    async def to_the_end(self: Any, request: _Request, context: Context) -> _Response:
        works: Works = self.works
        return await works.finish(method(self, request, context), method.__name__)

    return unary(to_the_end)


def stream(
    method: Callable[[Any, Any, Context], AsyncIterator[_Response]],
) -> Callable[[Any, Any, Context], AsyncIterator[_Response]]:
    answers_of = cast(Callable[[Any, Any, Context], AsyncGenerator[_Response]], method)

    @functools.wraps(method)
    async def answer(self: Any, request: Any, context: Context) -> AsyncIterator[_Response]:
        checked = time.monotonic()
        try:
            async with contextlib.aclosing(answers_of(self, readable(request), context)) as answers:
                async for response in answers:
                    if time.monotonic() - checked > CHECK_EVERY_S:
                        await caller().check()
                        checked = time.monotonic()
                    yield response
        except Exception as error:
            await abort_with(context, told(error, method.__name__))

    return answer


def told(error: Exception, method: str) -> InferDeckError:
    if isinstance(error, InferDeckError):
        return error
    if is_full(error):
        log.error("the disk of the store is full", extra={"method": method})
        return StoreFull("the disk of the store is full", hint="make room where [store] url is: the home, by default")
    if is_outage(error):
        log.warning("the store does not answer", extra={"method": method, "cause": cause_of(error)})
        return Unavailable("the store does not answer", hint="inferdeck logs control-plane")
    log.exception("a call failed", extra={"method": method})
    return InternalError(
        f"{method} failed inside the control plane: {type(error).__name__}", hint="inferdeck logs control-plane"
    )
