"""Refusing a call whose client may still be writing.

The client's gRPC makes an INTERNAL of its own ("Internal error from Core") when a message cannot be sent any more, and
then the refusal that has come is not looked at. So what a client has begun to say is heard out first, until it has been
silent for a moment. One that writes without a pause for as long as that may take hears INTERNAL all the same.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final, NoReturn

import grpc

from control_plane.contracts.errors import InferDeckError
from control_plane.contracts.wire.status import abort_with

TURN_S: Final = 0.01
QUIET_TURNS: Final = 5
"""A client that has said nothing for so many turns of so many seconds is done for now. They are counted one by one, so
that a process which was held up does not take that for silence."""

HEARD_OUT_S: Final = 0.5
"""For how long it is listened to at most, in seconds."""


async def refuse_stream(
    context: grpc.aio.ServicerContext[Any, Any], error: InferDeckError, requests: AsyncIterator[Any]
) -> NoReturn:
    """End a call whose requests are a stream with this error. What it says is thrown away."""
    # What cannot be read is thrown away as well.
    with contextlib.suppress(Exception):
        async with asyncio.timeout(HEARD_OUT_S):
            await _silence(requests)
    await abort_with(context, error)


async def _silence(requests: AsyncIterator[Any]) -> None:
    """Return when nothing has come for a while; raises StopAsyncIteration when nothing will come any more."""
    quiet = 0
    coming = asyncio.ensure_future(anext(requests))
    try:
        while quiet < QUIET_TURNS:
            quiet += 1
            if (await asyncio.wait({coming}, timeout=TURN_S))[0]:
                await coming
                coming = asyncio.ensure_future(anext(requests))
                quiet = 0
    finally:
        coming.cancel()
