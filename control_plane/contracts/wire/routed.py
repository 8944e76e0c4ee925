"""What crosses between a gateway and a router that is a process of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from control_plane.contracts.call import RoutedCall
from control_plane.contracts.errors import InferDeckError, from_reason
from control_plane.contracts.fleet import ModelView
from control_plane.contracts.v1 import operator_pb2, router_pb2
from control_plane.contracts.wire.convert import fill, from_wire, to_wire


def submit_to_wire(number: int, call: RoutedCall, now: float) -> router_pb2.SubmitCall:
    """``now`` is ``time.monotonic()``."""
    wire = router_pb2.SubmitCall(call=number, age_s=max(0.0, now - call.arrival_mono))
    fill(call, wire.routed)
    return wire


def submit_from_wire(wire: router_pb2.SubmitCall, gateway_id: str, request_id: str, now: float) -> RoutedCall:
    """The call with its arrival by this machine's clock, under the names that it has here.

    Raises ValueError where a part is missing without which there is no call: how to sample.
    """
    call = from_wire(wire.routed, RoutedCall)
    return replace(call, arrival_mono=now - wire.age_s, gateway_id=gateway_id, request_id=request_id)


def refusal_to_wire(number: int, error: InferDeckError) -> router_pb2.Refusal:
    return router_pb2.Refusal(
        call=number,
        reason=str(error.reason),
        message=error.message,
        param=error.param or "",
        code=error.code,
        hint=error.hint,
        retry_after_s=error.retry_after_s,
        retry=error.retry,
    )


def refusal_from_wire(wire: router_pb2.Refusal) -> InferDeckError:
    error = from_reason(wire.reason, wire.message, param=wire.param or None, hint=wire.hint)
    error.code = wire.code or error.code
    error.retry_after_s = wire.retry_after_s if wire.HasField("retry_after_s") else None
    error.retry = wire.retry if wire.HasField("retry") else None
    return error


def catalogue_to_wire(
    router_id: str, models: Sequence[ModelView], *, joined: bool, ready: bool, draining: bool, in_flight: int
) -> router_pb2.Catalogue:
    return router_pb2.Catalogue(
        router_id=router_id,
        models=[to_wire(view, operator_pb2.ModelView) for view in models],
        joined=joined,
        ready=ready,
        draining=draining,
        in_flight=in_flight,
    )


def models_from_wire(wire: router_pb2.Catalogue) -> tuple[ModelView, ...]:
    return tuple(from_wire(view, ModelView) for view in wire.models)
