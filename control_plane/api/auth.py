"""Who may call, and what: operators by their key, each as what it is. Callers' API keys open nothing here."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import grpc

from control_plane.api.caller import Caller, enter, too_low
from control_plane.api.roles import allows, needed
from control_plane.contracts.access import Actor, Role
from control_plane.contracts.errors import DropReason, Forbidden, InferDeckError, Unauthenticated, Unavailable
from control_plane.contracts.wire.refusing import refuse_stream
from control_plane.store import ApiKeys, Audit, Operators, Policies
from control_plane.store.secret import API_KEY_PREFIX, OPERATOR_KEY_PREFIX

OPEN: Final = ("/grpc.health.v1.Health/",)
"""Methods that need no key: whether the service is up."""

HOME: Final = "home"
"""The operator who has the home's own key: an admin that nobody can revoke, and that needs no store."""

_HINT: Final = "inferdeck --operator-key-file FILE; up writes operator.key into its home"
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Access:
    """Everything that is stored of who may do what."""

    keys: ApiKeys
    operators: Operators
    policies: Policies
    audit: Audit


class OperatorAuth(grpc.aio.ServerInterceptor):
    """Lets a call through that has ``authorization: Bearer OPERATOR-KEY`` in its metadata, of an operator whose role
    may make it."""

    def __init__(self, operator_key: str, access: Access) -> None:
        self._digest = hashlib.sha256(operator_key.encode()).digest()
        self._access = access

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        method = str(handler_call_details.method)
        if method.startswith(OPEN):
            return await continuation(handler_call_details)
        metadata = {name: _text(value) for name, value in handler_call_details.invocation_metadata or ()}
        token = _token(metadata.get("authorization", ""))

        async def check() -> None:
            await self._actor(token)

        try:
            actor = await self._actor(token, _request_id(metadata.get("x-request-id", "")))
            if not allows(actor.role, method):
                raise too_low(actor, method.rpartition("/")[2], needed(method))
        except InferDeckError as error:
            log.warning("call refused", extra={"method": method, "reason": str(error.reason)})
            return _refusing(error)
        enter(Caller(actor, check))
        return await continuation(handler_call_details)

    async def _actor(self, token: str, request_id: str = "") -> Actor:
        if hmac.compare_digest(hashlib.sha256(token.encode("utf-8", "replace")).digest(), self._digest):
            return Actor(HOME, HOME, Role.ADMIN, request_id)
        if not token:
            raise Unauthenticated("the operator key is missing", hint=_HINT)
        try:
            if token.startswith(OPERATOR_KEY_PREFIX):
                found = await asyncio.to_thread(self._access.operators.lookup, token)
                if found is not None:
                    return Actor(found.id, found.name, found.role, request_id)
            elif token.startswith(API_KEY_PREFIX) and await self._is_callers(token):
                raise Forbidden("an API key is not an operator key", reason=DropReason.NOT_AN_OPERATOR, hint=_HINT)
        except InferDeckError:
            raise
        except Exception as error:
            log.warning("a key could not be looked up: %s", type(error).__name__)
            raise Unavailable("operators cannot be checked at the moment; the home's own key works on") from None
        raise Unauthenticated("the operator key is wrong", hint=_HINT)

    async def _is_callers(self, token: str) -> bool:
        return await asyncio.to_thread(self._access.keys.lookup, token) is not None


def _token(authorization: str) -> str:
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _request_id(given: str) -> str:
    """The caller's own where it is sound, one of ours otherwise."""
    return given if _REQUEST_ID.fullmatch(given) else f"call-{secrets.token_hex(8)}"


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _refusing(error: InferDeckError) -> grpc.RpcMethodHandler[Any, Any]:
    """Answers any kind of call: on the wire they are all streams."""

    async def refuse(requests: AsyncIterator[Any], context: grpc.aio.ServicerContext[Any, Any]) -> None:
        await refuse_stream(context, error, requests)

    return grpc.stream_stream_rpc_method_handler(refuse)
