"""Requests whose bytes are no message: their caller hears what is wrong. gRPC by itself says UNKNOWN, as of a fault of
ours."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import grpc
from google.protobuf.message import DecodeError

from control_plane.contracts.errors import InvalidRequest

_Request = TypeVar("_Request")

_OURS = "/inferdeck."


class Readable(grpc.aio.ServerInterceptor):
    """Hands methods a request that cannot be read as None, which ``readable`` refuses for them; each, in a stream."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        handler: Any = await continuation(handler_call_details)
        if handler is None or not str(handler_call_details.method).startswith(_OURS):
            return handler  # type: ignore[no-any-return]

        def read(data: bytes) -> Any:
            try:
                return handler.request_deserializer(data)
            except DecodeError:
                return None

        readily: grpc.RpcMethodHandler[Any, Any] = handler._replace(request_deserializer=read)
        return readily


def readable(request: _Request) -> _Request:
    """Raises InvalidRequest."""
    if request is None:
        raise InvalidRequest("the request's bytes are not the message that this method takes")
    return request
