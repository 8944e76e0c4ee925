"""Failures on the wire: kinds are words, so that one that nobody knows can be refused by name."""

from __future__ import annotations

from control_plane.contracts.failure import Failure, failure_kind
from control_plane.contracts.v1 import worker_pb2 as pb


def failure_from_wire(message: pb.Failure) -> Failure:
    """Raises InvalidRequest for a kind or numbers that are none. A factor that is not said is the default."""
    kind = failure_kind(message.kind)
    if not message.factor:
        return Failure(kind, message.after_s, message.for_s)
    return Failure(kind, message.after_s, message.for_s, message.factor)


def failures_from_wire(message: pb.InjectResponse) -> tuple[Failure, ...]:
    return tuple(map(failure_from_wire, message.failures))
