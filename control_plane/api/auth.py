"""Who may call: whoever has the operator key. Callers' API keys open nothing here."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, Protocol

import grpc

from control_plane.contracts.errors import DropReason, Forbidden, InferDeckError, Unauthenticated
from control_plane.contracts.wire.status import abort_with
from control_plane.store.keys import API_KEY_PREFIX

OPEN: Final = ("/grpc.health.v1.Health/",)
"""Methods that need no key: whether the service is up."""

_HINT: Final = "inferdeck --operator-key-file FILE; up writes operator.key into its home"

log = logging.getLogger(__name__)


class Keys(Protocol):
    def lookup(self, key: str) -> object | None:
        """The record of a caller's API key; may block."""
        ...


class OperatorAuth(grpc.aio.ServerInterceptor):
    """Lets a call through that has ``authorization: Bearer OPERATOR-KEY`` in its metadata."""

    def __init__(self, operator_key: str, keys: Keys) -> None:
        self._digest = hashlib.sha256(operator_key.encode()).digest()
        self._keys = keys

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        method = str(handler_call_details.method)
        if method.startswith(OPEN):
            return await continuation(handler_call_details)
        error = await self._refusal(_token(handler_call_details))
        if error is None:
            return await continuation(handler_call_details)
        log.warning("call refused", extra={"method": method, "reason": str(error.reason)})
        return _refusing(error)

    async def _refusal(self, token: str) -> InferDeckError | None:
        if hmac.compare_digest(hashlib.sha256(token.encode("utf-8", "replace")).digest(), self._digest):
            return None
        if not token:
            return Unauthenticated("the operator key is missing", hint=_HINT)
        if token.startswith(API_KEY_PREFIX) and await self._is_callers(token):
            return Forbidden("an API key is not an operator key", reason=DropReason.NOT_AN_OPERATOR, hint=_HINT)
        return Unauthenticated("the operator key is wrong", hint=_HINT)

    async def _is_callers(self, token: str) -> bool:
        try:
            return await asyncio.to_thread(self._keys.lookup, token) is not None
        except Exception as error:
            log.warning("an API key could not be looked up: %s", type(error).__name__)
            return False


def _token(details: grpc.HandlerCallDetails) -> str:
    for name, value in details.invocation_metadata or ():
        if name == "authorization":
            text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
            scheme, _, token = text.partition(" ")
            return token.strip() if scheme.lower() == "bearer" else ""
    return ""


def _refusing(error: InferDeckError) -> grpc.RpcMethodHandler[Any, Any]:
    """Answers any kind of call: on the wire they are all streams, and this one reads nothing."""

    async def refuse(requests: AsyncIterator[Any], context: grpc.aio.ServicerContext[Any, Any]) -> None:
        await abort_with(context, error)

    return grpc.stream_stream_rpc_method_handler(refuse)
