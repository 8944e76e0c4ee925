from __future__ import annotations

import grpc

from control_plane.contracts.errors import Unavailable
from control_plane.contracts.wire.status import error_from


def test_who_waited_to_the_end_of_the_wait_says_how_long() -> None:
    nothing = grpc.aio.Metadata()
    late = grpc.aio.AioRpcError(grpc.StatusCode.DEADLINE_EXCEEDED, nothing, nothing, "Deadline Exceeded")
    error = error_from(late, peer="w:1", waited_s=600.0)
    assert isinstance(error, Unavailable)
    assert error.message == "gave up after 600 s: no answer at w:1"
    assert error_from(late, peer="w:1").message == "cannot reach the peer at w:1: Deadline Exceeded"
