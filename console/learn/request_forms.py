"""A call that was made, as its router sent it on: written and read as JSON and as protobuf."""

from __future__ import annotations

import asyncio
from dataclasses import fields
from typing import Final

from console.client import OperatorClient
from console.learn.both_forms import both_forms
from console.learn.calls import Made
from control_plane.contracts.call import RoutedCall
from control_plane.contracts.errors import NotFound
from control_plane.contracts.fleet import RequestView
from control_plane.contracts.policy import Policy
from control_plane.contracts.worker import Sampling
from lessons.actions import ROUNDS
from lessons.encoded import BothForms

_SAMPLING: Final = frozenset(field.name for field in fields(Sampling))


async def request_forms(client: OperatorClient, made: Made | None) -> BothForms:
    """Raises NotFound for a call that was not made, or not of token ids: its tokens are the gateway's to know."""
    if made is None or made.body is None or not isinstance(made.body.get("prompt"), list):
        raise NotFound("no such call of token ids was made in this sandbox yet")
    view = (await client.timeline(made.request_id)).request
    call = routed_call(made, view, await client.access.policy())
    return await asyncio.to_thread(both_forms, call, ROUNDS)


def routed_call(made: Made, view: RequestView, policy: Policy) -> RoutedCall:
    """With the prompt, the sampling, the name, the arrival and the priority that it had."""
    body = made.body or {}
    tier = policy.tiers.get(view.tier)
    return RoutedCall(
        request_id=made.request_id,
        model=view.model,
        prompt_token_ids=body["prompt"],
        sampling=Sampling(**{name: value for name, value in body.items() if name in _SAMPLING}),
        stream=made.shape.stream,
        arrival_unix=view.arrival_unix,
        arrival_mono=0.0,
        priority=-tier.priority if tier is not None else 0,
    )
