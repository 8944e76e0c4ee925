"""What the control plane asks of a router that is a process of its own."""

from __future__ import annotations

from typing import Any, Final

import grpc

from control_plane.contracts.identity import Peer
from control_plane.contracts.router_state import RouterState
from control_plane.contracts.v1 import router_pb2 as pb
from control_plane.contracts.v1.router_pb2_grpc import RouterStub
from control_plane.contracts.wire.convert import from_wire
from control_plane.contracts.wire.secure import open_channel
from control_plane.contracts.wire.status import error_from

TIMEOUT_S: Final = 5.0


async def router_state(address: str, credentials: str = "") -> RouterState:
    """How it stands now. Raises Unavailable when nobody answers."""
    try:
        async with open_channel(address, credentials, Peer.ROUTER) as channel:
            make_stub: Any = RouterStub
            answer = await make_stub(channel).State(pb.StateRequest(), timeout=TIMEOUT_S)
    except grpc.aio.AioRpcError as error:
        raise error_from(error, peer=address, waited_s=TIMEOUT_S) from None
    return from_wire(answer, RouterState)
