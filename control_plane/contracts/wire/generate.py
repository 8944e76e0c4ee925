"""A routed call as the frame that starts it, by hand: the general conversion costs several times as much."""

from __future__ import annotations

from control_plane.contracts.call import RoutedCall
from control_plane.contracts.v1 import worker_pb2 as pb
from control_plane.contracts.wire.convert import from_wire
from control_plane.contracts.worker import Generate, Sampling


def write_generate(number: int, call: RoutedCall) -> bytes:
    """``number`` is the call's on its stream."""
    return generate_frame(number, call).SerializeToString()


def read_generate(data: bytes) -> Generate:
    """What such a frame starts, as its worker submits it."""
    return from_wire(pb.RouterFrame.FromString(data).generate, Generate)


def generate_frame(number: int, call: RoutedCall) -> pb.RouterFrame:
    frame = pb.RouterFrame()
    generate = frame.generate
    generate.call = number
    generate.request_id = call.request_id
    generate.prompt_token_ids.extend(call.prompt_token_ids)
    _fill(generate.sampling, call.sampling)
    generate.priority = call.priority
    generate.cache_salt = call.cache_salt
    # Log probabilities come step by step also for a plain call: all at once, they would hold up everyone else.
    generate.stream = call.stream or call.sampling.logprobs is not None
    generate.arrival_unix = call.arrival_unix
    generate.resumed = call.resumed
    return frame


def _fill(wire: pb.Sampling, sampling: Sampling) -> None:
    wire.n = sampling.n
    wire.max_tokens = sampling.max_tokens
    wire.min_tokens = sampling.min_tokens
    wire.ignore_eos = sampling.ignore_eos
    for name in _OPTIONAL:
        value = getattr(sampling, name)
        if value is not None:
            setattr(wire, name, value)
    if sampling.stop:
        wire.stop.extend(sampling.stop)
    if sampling.stop_token_ids:
        wire.stop_token_ids.extend(sampling.stop_token_ids)
    if sampling.logit_bias:
        wire.logit_bias.update(sampling.logit_bias)


_OPTIONAL = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "logprobs",
    "json_object",
    "json_schema",
    "regex",
)
