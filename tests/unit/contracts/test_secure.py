"""Whose certificate opens which method, over real TLS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from control_plane.contracts.errors import DropReason, Forbidden
from control_plane.contracts.identity import Peer
from control_plane.contracts.wire.secure import PeerGate, listen, open_channel
from control_plane.contracts.wire.status import error_from
from control_plane.trust.keyring import Keyring


async def test_the_certificate_of_another_peer_is_told_that_it_is_the_wrong_one(tmp_path: Path) -> None:
    """SE03."""
    keyring = Keyring(tmp_path)
    server = grpc.aio.server(interceptors=(PeerGate({"/grpc.health.v1.Health/": frozenset({Peer.GATEWAY})}),))
    servicer = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    port = listen(server, "127.0.0.1:0", keyring.ensure_peer(Peer.WORKER, "w"))
    await server.start()

    async def ask(peer: Peer) -> Any:
        async with open_channel(f"127.0.0.1:{port}", keyring.ensure_peer(peer), Peer.WORKER) as channel:
            stub: Any = health_pb2_grpc.HealthStub(channel)
            return await stub.Check(health_pb2.HealthCheckRequest(), timeout=10)

    try:
        assert (await ask(Peer.GATEWAY)).status == health_pb2.HealthCheckResponse.SERVING
        for peer in (Peer.OPERATOR, Peer.WORKER):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await ask(peer)
            assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
            error = error_from(refused.value)
            assert isinstance(error, Forbidden)
            assert error.reason is DropReason.WRONG_PEER
            assert f"is for: gateway; not for: {peer}" in error.message
    finally:
        await server.stop(0)
