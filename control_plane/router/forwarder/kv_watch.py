"""Hearing from one worker which KV blocks its prefix cache holds.

It is a stream of its own beside the one of the calls, over the same cheap transport: events come with every step of a
busy engine. An idle one sends nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from google.protobuf.message import DecodeError

from control_plane.contracts.errors import SettingsError
from control_plane.contracts.kv_mirror import KvMirror
from control_plane.contracts.v1 import worker_pb2 as pb
from control_plane.contracts.wire.kv_events import kv_frame_from_wire
from control_plane.router.forwarder.grpc_stream import GrpcStream, StreamBroken, open_stream

_log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S: Final = 2.0
FIRST_BACKOFF_S: Final = 0.1
LONGEST_BACKOFF_S: Final = 5.0
_WATCH: Final = "/inferdeck.v1.Worker/WatchKvEvents"
_GAP: Final = "a batch of KV events is missing"


class KvWatch:
    """Follows one worker instance into ``mirror``; ``heard`` is called after every frame with the wall clock.
    ``watches`` counts how often it began to."""

    def __init__(self, mirror: KvMirror, heard: Callable[[float], None] = lambda now_unix: None) -> None:
        self.mirror = mirror
        self.watches = 0
        self._heard = heard
        self._frames = 0

    async def follow(self, address: str, credentials: str = "") -> None:
        """Until cancelled, or until the worker says that it has no events: ``mirror.unavailable`` says why.

        Where a batch is missing or the stream breaks it watches anew, from where it was.
        """
        backoff = FIRST_BACKOFF_S
        while True:
            self._frames = 0
            try:
                cause = await self._watch(address, credentials)
            except (OSError, TimeoutError, SettingsError) as error:
                cause = str(error) or "nobody answers"
            except Exception as error:
                _log.exception("a watch of KV events failed", extra={"address": address})
                cause = f"{type(error).__name__}: {error}"
            if self.mirror.unavailable:
                return
            _log.info("watching KV events anew", extra={"address": address, "cause": cause})
            if self._frames > 1:
                backoff = FIRST_BACKOFF_S
            if cause != _GAP or self._frames <= 1:
                await asyncio.sleep(backoff)
                backoff = min(2 * backoff, LONGEST_BACKOFF_S)

    async def _watch(self, address: str, credentials: str) -> str:
        """Returns why it is over."""
        ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        end = lambda cause: None if ended.done() else ended.set_result(cause)  # noqa: E731
        stream: GrpcStream | None = None
        try:
            stream = await open_stream(address, _WATCH, self._take, end, CONNECT_TIMEOUT_S, credentials)
            self.watches += 1
            from_seq, instance_id = self.mirror.ask()
            request = pb.WatchKvEventsRequest(from_seq=from_seq, instance_id=instance_id)
            stream.send(request.SerializeToString())
            return await ended
        finally:
            if stream is not None:
                stream.close()

    def _take(self, message: bytes) -> None:
        try:
            frame = pb.KvFrame.FromString(message)
        except DecodeError:
            raise StreamBroken("a frame of KV events is none") from None
        good = self.mirror.apply(kv_frame_from_wire(frame))
        self._frames += 1
        self._heard(time.time())
        if not good:
            raise StreamBroken(_GAP)
