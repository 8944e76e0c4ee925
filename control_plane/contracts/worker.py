"""What a router and a worker say to each other, as plain values.

Field names equal those of ``v1/worker.proto``, which documents each of them; ``wire`` converts both ways. Durations
are seconds, ``*_unix`` is wall clock (``time.time()``), KV usage is a fraction 0-1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class WorkerState(Enum):
    UNSPECIFIED = 0
    LOADING = 1
    READY = 2
    DRAINING = 3
    FAILED = 4
    STOPPING = 5
    ASLEEP = 6
    WAKING = 7


class FinishReason(Enum):
    UNSPECIFIED = 0
    STOP = 1
    LENGTH = 2
    ABORT = 3


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to choose tokens. ``max_tokens`` is per choice and always set; None means the engine's default."""

    max_tokens: int
    n: int = 1
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    min_tokens: int = 0
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: dict[int, float] = field(default_factory=dict)
    logprobs: int | None = None
    json_object: bool | None = None
    json_schema: str | None = None
    regex: str | None = None


@dataclass(frozen=True, slots=True)
class Generate:
    """One call for a worker. ``call`` numbers it on its stream, ``request_id`` names it in the system.

    ``resumed``: so many tokens at the prompt's end are this call's own answer, generated and delivered elsewhere. The
    answer goes on after them, its text where theirs ended; ``max_tokens``, ``min_tokens`` and all counts include them.
    """

    call: int
    request_id: str
    prompt_token_ids: tuple[int, ...] | list[int]
    sampling: Sampling
    priority: int = 0
    cache_salt: str = ""
    stream: bool = True
    arrival_unix: float = 0.0
    resumed: int = 0


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    token_id: int
    token: bytes
    logprob: float
    rank: int = 0
    top: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class Finish:
    """How one choice ended."""

    reason: FinishReason
    output_tokens: int
    stop_text: str = ""
    stop_token_id: int | None = None


@dataclass(frozen=True, slots=True)
class Stages:
    """Where the time of one call went inside the worker, in seconds."""

    received_unix: float = 0.0
    queued_s: float = 0.0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    preemptions: int = 0


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a whole call: what it used and where its time went."""

    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    stages: Stages = Stages()


@dataclass(frozen=True, slots=True)
class CallError:
    """A call that failed. ``code`` is a ``DropReason`` value."""

    code: str
    message: str
    param: str = ""


@dataclass(slots=True)
class Delta:
    """What one engine step added to one choice of one call.

    Exactly one delta of a call carries ``done`` or ``error``, and it is the last. Mutable because it is made once
    per token and request, where a frozen dataclass costs three times as much to build.
    """

    call: int
    token_ids: list[int] | tuple[int, ...] = ()
    text: str = ""
    choice: int = 0
    logprobs: tuple[TokenLogprob, ...] = ()
    finish: Finish | None = None
    done: Done | None = None
    error: CallError | None = None


@dataclass(frozen=True, slots=True)
class ModelInfo:
    name: str
    source: str = ""
    revision: str = ""
    dtype: str = ""
    max_context: int = 0
    vocab_size: int = 0
    block_size: int = 0
    total_blocks: int = 0
    kv_bytes: int = 0
    tensor_parallel: int = 1
    max_num_seqs: int = 0
    max_num_batched_tokens: int = 0
    tokenizer_hash: str = ""


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    worker_id: str
    instance_id: str
    pid: int
    engine_pid: int = 0
    started_unix: float = 0.0
    engine: str = ""
    engine_version: str = ""
    model: ModelInfo | None = None
    state: WorkerState = WorkerState.LOADING
    state_reason: str = ""
    device: str = ""
    load_s: float = 0.0
    kv_events: bool = False
    kv_events_unavailable: str = ""


@dataclass(frozen=True, slots=True)
class Load:
    instance_id: str
    sampled_unix: float
    state: WorkerState
    running: int = 0
    waiting: int = 0
    total_blocks: int = 0
    used_blocks: int = 0
    kv_usage: float = 0.0
    tokens_per_s: float = 0.0
    prompt_tokens_per_s: float = 0.0
    generated_tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    preemptions: int = 0
    steps: int = 0
    finished: int = 0
    rss_bytes: int = 0
    cpu_s: float = 0.0
    sleep_level: int = 0


@dataclass(frozen=True, slots=True)
class RunningRequest:
    """A request as the worker that runs it sees it."""

    request_id: str
    router_id: str
    prompt_tokens: int
    output_tokens: int
    max_tokens: int
    priority: int
    received_unix: float
    first_token_seen: bool
