"""A call on its way to a worker, as the router really sends it and as JSON that says the same.

Protobuf goes through the router's and the worker's own code, from the call to bytes and from bytes to what the worker
submits. JSON has the same fields under the same names and leaves out the same defaults, in its densest form, through
the standard library (which is C there, as protobuf is).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import MISSING, fields
from statistics import median
from typing import Any, Final

from control_plane.contracts.call import RoutedCall
from control_plane.contracts.wire.generate import read_generate, write_generate
from control_plane.contracts.worker import Generate, Sampling
from lessons.encoded import BothForms, Encoded

_NUMBER: Final = 1
"""Of the call on its stream; a router counts them."""

_DENSE: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def both_forms(call: RoutedCall, rounds: int) -> BothForms:
    """Each written and read so many times, in turn, so that a busy machine is busy for both."""
    as_json, as_protobuf = write_json(call), write_generate(_NUMBER, call)
    works: tuple[Callable[[], object], ...] = (
        lambda: write_json(call),
        lambda: read_json(as_json),
        lambda: write_generate(_NUMBER, call),
        lambda: read_generate(as_protobuf),
    )
    took: list[list[int]] = [[] for _ in works]
    for _ in range(rounds):
        for times, work in zip(took, works, strict=True):
            began = time.perf_counter_ns()
            work()
            times.append(time.perf_counter_ns() - began)
    json_write, json_read, wire_write, wire_read = (median(times) / 1e9 for times in took)
    return BothForms(Encoded(len(as_json), json_write, json_read), Encoded(len(as_protobuf), wire_write, wire_read))


def write_json(call: RoutedCall) -> bytes:
    generate: dict[str, Any] = {
        "call": _NUMBER,
        "request_id": call.request_id,
        "prompt_token_ids": call.prompt_token_ids,
        "sampling": _given(call.sampling),
        "arrival_unix": call.arrival_unix,
    }
    if call.priority:
        generate["priority"] = call.priority
    if call.cache_salt:
        generate["cache_salt"] = call.cache_salt
    if call.stream or call.sampling.logprobs is not None:
        generate["stream"] = True
    if call.resumed:
        generate["resumed"] = call.resumed
    return _DENSE({"generate": generate}).encode()


def read_json(data: bytes) -> Generate:
    """As the worker has it, with protobuf's defaults for what is not said."""
    said = json.loads(data)["generate"]
    sampling: dict[str, Any] = {
        name: tuple(item) if isinstance(item, list) else item for name, item in said["sampling"].items()
    }
    if "logit_bias" in sampling:
        sampling["logit_bias"] = {int(token): bias for token, bias in sampling["logit_bias"].items()}
    return Generate(
        call=said["call"],
        request_id=said["request_id"],
        prompt_token_ids=tuple(said["prompt_token_ids"]),
        sampling=Sampling(**sampling),
        priority=said.get("priority", 0),
        cache_salt=said.get("cache_salt", ""),
        stream=said.get("stream", False),
        arrival_unix=said["arrival_unix"],
        resumed=said.get("resumed", 0),
    )


_SAMPLING: Final = tuple(
    (field.name, None if field.default is MISSING else field.default)
    for field in fields(Sampling)
    if field.name not in ("max_tokens", "n")
)


def _given(sampling: Sampling) -> dict[str, Any]:
    given: dict[str, Any] = {"max_tokens": sampling.max_tokens, "n": sampling.n}
    for name, unset in _SAMPLING:
        value = getattr(sampling, name)
        if value != unset and value != {}:
            given[name] = value
    return given
