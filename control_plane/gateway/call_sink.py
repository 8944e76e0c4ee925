"""The sink that a call's answer goes to, by what the call asks for."""

from __future__ import annotations

from control_plane.gateway.answer.heading import Heading
from control_plane.gateway.answer.hops import HopEvents, HopStreamSink, KeptHopStreamSink
from control_plane.gateway.answer.plain_sink import PlainSink
from control_plane.gateway.answer.sink import Kept, Owner, Shape, Sink, Tally
from control_plane.gateway.answer.stream_sink import KeptStreamSink, StreamSink
from control_plane.gateway.api import Api
from control_plane.gateway.http.exchange import Exchange
from control_plane.gateway.prompt.model_prompt import ModelPrompt
from control_plane.gateway.schema.generation import Generation


def make_sink(
    owner: Owner,
    exchange: Exchange,
    api: Api,
    generation: Generation,
    prompt: ModelPrompt,
    tally: Tally,
    turn: Kept | None,
) -> Sink:
    """A stream of events, or one body; kept in ``turn``, where there is one."""
    heading = Heading(
        api.answer_id(exchange.request_id, generation),
        int(exchange.arrival_unix),
        generation.model,
        "fp_" + prompt.hash[:10],
    )
    shape = Shape(generation.choices, "logprobs" in generation.sampling, prompt.control_ids)
    if not generation.stream:
        return PlainSink(
            owner, exchange, api.body(heading, generation, prompt), tally, shape, logprobs=api.logprobs, turn=turn
        )
    events = api.events(heading, generation, prompt)
    if generation.include_hops:
        hops = HopEvents(events, exchange.arrival_unix)
        return (HopStreamSink if turn is None else KeptHopStreamSink)(owner, exchange, hops, tally, shape, turn)
    return (StreamSink if turn is None else KeptStreamSink)(owner, exchange, events, tally, shape, turn)
