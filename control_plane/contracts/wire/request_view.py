"""A request as routers report it."""

from __future__ import annotations

from typing import Any, cast

from control_plane.contracts.fleet import RequestView
from control_plane.contracts.v1 import operator_pb2 as pb
from control_plane.contracts.wire.convert import fill


def request_to_wire(view: RequestView) -> pb.RequestView:
    """By hand: every active request goes into every report."""
    message = pb.RequestView(
        id=view.id,
        gateway_id=view.gateway_id,
        worker_id=view.worker_id,
        model=view.model,
        key_id=view.key_id,
        phase=cast(Any, view.phase.value),
        reason=view.reason,
        stream=view.stream,
        arrival_unix=view.arrival_unix,
        prompt_tokens=view.prompt_tokens,
        cached_tokens=view.cached_tokens,
        output_tokens=view.output_tokens,
        max_tokens=view.max_tokens,
        ttft_s=view.ttft_s,
        itl_p50_s=view.itl_p50_s,
        duration_s=view.duration_s,
        retries=view.retries,
        stages=[
            pb.Stage(name=s.name, start_s=s.start_s, duration_s=s.duration_s, worker_id=s.worker_id)
            for s in view.stages
        ],
        api=view.api,
        traceparent=view.traceparent,
        predicted_cached_tokens=view.predicted_cached_tokens,
        router_id=view.router_id,
        worker_s=view.worker_s,
        cost=view.cost,
        tier=view.tier,
        preemptions=view.preemptions,
    )
    if view.choice is not None:
        fill(view.choice, message.choice)
    for hold in view.holds:
        message.holds.add(
            reason=hold.reason,
            start_s=hold.start_s,
            waited_s=hold.waited_s,
            over=hold.over,
            tier=hold.tier,
            band=hold.band,
            saturation=hold.saturation,
            position=hold.position,
            queued=hold.queued,
        )
    return message
