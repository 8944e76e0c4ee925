"""gRPC with proof of who is at the other end, or without, where the two ends agree on that.

A credentials file is read anew for every connection that is made or accepted, so a renewed one counts from then on,
and connections that are open go on.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc

from control_plane.contracts.errors import DropReason, Forbidden, InferDeckError
from control_plane.contracts.identity import Credentials, Peer, peers_in
from control_plane.contracts.wire.channel import CLIENT_OPTIONS
from control_plane.contracts.wire.refusing import refuse_stream
from control_plane.contracts.wire.status import abort_with

_OPERATORS = "inferdeck cert client NAME --out FILE, in the platform's home, makes an operator's certificate"

_log = logging.getLogger(__name__)


def open_channel(address: str, credentials: str | Path | None, peer: Peer) -> grpc.aio.Channel:
    """A channel to ``host:port``. With ``credentials`` only that peer will do, and it is shown ours.

    Raises SettingsError for credentials that cannot be read.
    """
    if not credentials:
        return grpc.aio.insecure_channel(address, options=CLIENT_OPTIONS)
    own = Credentials.read(credentials)
    return grpc.aio.secure_channel(
        address,
        grpc.ssl_channel_credentials(own.authority, own.key, own.certificate),
        options=(*CLIENT_OPTIONS, ("grpc.ssl_target_name_override", peer.host)),
    )


def listen(server: grpc.aio.Server, address: str, credentials: str | Path | None) -> int:
    """Take a port for the server; with ``credentials`` nobody connects who has none of the same authority.

    Raises RuntimeError if the port is taken, SettingsError for credentials that cannot be read.
    """
    if not credentials:
        return server.add_insecure_port(address)
    return server.add_secure_port(address, _Renewed(Path(credentials)).server_credentials())


class _Renewed:
    """Server credentials out of a file that is replaced now and then."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = self._stamp_now()
        self._first = Credentials.read(path)

    def server_credentials(self) -> grpc.ServerCredentials:
        return grpc.dynamic_ssl_server_credentials(_configuration(self._first), self._fetch, True)

    def _fetch(self) -> Any:
        """Called by gRPC, in threads of its own, before every handshake. None: as before."""
        try:
            stamp = self._stamp_now()
            if stamp == self._stamp:
                return None
            configuration = _configuration(Credentials.read(self._path))
        except (OSError, InferDeckError) as error:
            _log.warning("the last credentials stay in use: %s", error)
            return None
        self._stamp = stamp
        return configuration

    def _stamp_now(self) -> tuple[int, int]:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return (0, 0)
        return (found.st_ino, found.st_mtime_ns)


def _configuration(own: Credentials) -> Any:
    return grpc.ssl_server_certificate_configuration([(own.key, own.certificate)], own.authority)


class PeerGate(grpc.aio.ServerInterceptor):
    """Lets a call through where the caller's certificate is of one of the peers that its method is for.

    ``peers`` maps the beginning of a method's path to those that may call it; the longest one that fits counts,
    and what fits none is for nobody. Raises nothing; refusals are PERMISSION_DENIED.
    """

    def __init__(self, peers: dict[str, frozenset[Peer]]) -> None:
        self._peers = sorted(peers.items(), key=lambda entry: -len(entry[0]))

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        handler: Any = await continuation(handler_call_details)
        if handler is None:
            return None
        method = str(handler_call_details.method)
        allowed = next((peers for prefix, peers in self._peers if method.startswith(prefix)), frozenset[Peer]())
        kind = ("stream" if handler.request_streaming else "unary") + (
            "_stream" if handler.response_streaming else "_unary"
        )
        guarded = _guarded(getattr(handler, kind), allowed, method, streamed=handler.request_streaming)
        make: Any = getattr(grpc, f"{kind}_rpc_method_handler")
        made: grpc.RpcMethodHandler[Any, Any] = make(guarded, handler.request_deserializer, handler.response_serializer)
        return made


def peers_of(context: Any) -> frozenset[Peer]:
    """Whose certificate it is that the caller has shown."""
    names = context.auth_context().get("x509_subject_alternative_name", ())
    return peers_in([bytes(name).decode("ascii", "replace") for name in names])


def _guarded(
    behaviour: Callable[..., Any], allowed: frozenset[Peer], method: str, *, streamed: bool
) -> Callable[..., Any]:
    """``streamed``: what comes in is a stream."""

    async def check(request: Any, context: Any) -> None:
        have = peers_of(context)
        if not have & allowed:
            _log.warning("call refused", extra={"method": method, "peers": sorted(have)})
            wanted = " or ".join(sorted(allowed)) or "nobody"
            error = Forbidden(
                f"{method} is for: {wanted}; not for: {', '.join(sorted(have)) or 'this certificate'}",
                reason=DropReason.WRONG_PEER,
                hint=_OPERATORS if Peer.OPERATOR in allowed else "",
            )
            if streamed:
                await refuse_stream(context, error, request)
            await abort_with(context, error)

    if inspect.isasyncgenfunction(behaviour):

        async def generate(request: Any, context: Any) -> Any:
            await check(request, context)
            async with contextlib.aclosing(behaviour(request, context)) as responses:
                async for response in responses:
                    yield response

        return generate

    async def answer(request: Any, context: Any) -> Any:
        await check(request, context)
        return await behaviour(request, context)

    return answer
