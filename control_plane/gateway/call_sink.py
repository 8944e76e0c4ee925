"""The sink that a call's answer goes to, by what the call asks for."""

from __future__ import annotations

from control_plane.gateway.answer.heading import Heading
from control_plane.gateway.answer.hops import HopStreamSink, KeptHopStreamSink
from control_plane.gateway.answer.sinks import Kept, KeptStreamSink, Owner, PlainSink, Sink, StreamSink, Tally
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
    logprobs = "logprobs" in generation.sampling
    if generation.stream:
        plain, kept = (HopStreamSink, KeptHopStreamSink) if generation.include_hops else (StreamSink, KeptStreamSink)
        return (plain if turn is None else kept)(
            owner,
            exchange,
            api.events(heading, generation, prompt),
            tally,
            logprobs=logprobs,
            control_ids=prompt.control_ids,
            choices=generation.choices,
            turn=turn,
        )
    return PlainSink(
        owner,
        exchange,
        api.body(heading, generation, prompt),
        tally,
        logprobs=api.logprobs if logprobs else None,
        control_ids=prompt.control_ids,
        choices=generation.choices,
        turn=turn,
    )
