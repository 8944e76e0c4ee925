"""The body of ``/v1/route``: a call, as far as the choice of its model depends on it."""

from __future__ import annotations

from typing import Any

from control_plane.gateway.schema.generation import Generation
from control_plane.gateway.schema.messages import messages
from control_plane.gateway.schema.table import Table
from control_plane.gateway.schema.thread import Thread, conversation, new_id
from control_plane.gateway.schema.values import integer, invalid, string

_MOST = 2**63

ROUTE = Table(
    {
        "conversation": conversation,
        "max_tokens": integer(1, _MOST),
        "messages": messages,
        "model": string(256, may_be_empty=False, about="A model of /v1/models."),
        "prompt": string(about="Either this or 'messages'."),
        "user": string(512),
    },
    ("model",),
)


def read_route(body: dict[str, Any]) -> Generation:
    """The call that is asked about. Raises InvalidRequest."""
    values = ROUTE.read(body)
    if ("prompt" in values) == ("messages" in values):
        raise invalid("prompt", "Expected either 'prompt' or 'messages'.", "invalid_parameter_combination")
    generation = Generation(values["model"], {}, values.get("max_tokens"))
    generation.messages = values.get("messages", [])
    generation.prompt = values.get("prompt", "")
    generation.user = values.get("user", "")
    if "conversation" in values:
        generation.thread = Thread(new_id("turn"), values["conversation"])
    return generation
