"""What every engine is to the worker around it.

An engine turns calls into deltas. It calls ``sink`` once per engine step with everything that step produced, from the
event loop's thread; the sink never blocks. Implementations: ``vllm_engine`` (real vLLM), ``scripted`` (exact tokens,
bytes, delays and deaths, for tests and benchmarks).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from control_plane.contracts.failure import Failure
from control_plane.contracts.kv_events import KvBatch, KvSnapshot
from control_plane.contracts.step import BlockSnapshot, EngineStep, TraceMode, TraceState
from control_plane.contracts.worker import Delta, Generate, ModelInfo


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """One sample of the engine's own counters; totals count since the engine started."""

    running: int = 0
    waiting: int = 0
    total_blocks: int = 0
    used_blocks: int = 0
    generated_tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    preemptions: int = 0
    steps: int = 0


@dataclass(frozen=True, slots=True)
class TokenizerFile:
    name: str
    data: bytes


Sink = Callable[[Sequence[Delta]], None]


class EngineDead(Exception):
    """The engine can serve nothing more; the message says what is known of the cause."""


class Engine(Protocol):
    """The engine's whole life: ``start`` → ``submit``/``abort`` … → ``stop``.

    That it can generate is proved from outside, by a call like any other, before the worker serves.

    ``submit`` may raise ``InferDeckError`` for a call that the engine refuses; after it returned, the call ends with
    exactly one delta that has ``done`` or ``error`` set, whatever happens. ``call`` numbers are unique in the worker.
    """

    name: str
    version: str
    device: str

    async def start(self) -> ModelInfo:
        """Load everything; returns when the engine takes calls."""
        ...

    def submit(self, call: Generate, sink: Sink) -> None: ...

    def abort(self, call: int) -> None:
        """End a call early: its last delta says so, and its KV blocks are freed. Unknown calls are ignored."""
        ...

    def load(self) -> EngineLoad: ...

    def pids(self) -> tuple[int, ...]:
        """Processes that belong to the engine, besides the worker itself."""
        ...

    async def dead(self) -> str:
        """Return, with what is known of the cause, when the engine has died by itself."""
        ...

    def tokenizer_files(self) -> Sequence[TokenizerFile]: ...

    async def stop(self) -> None:
        """Free everything; all processes of the engine have ended when this returns."""
        ...


@runtime_checkable
class ReportsProgress(Protocol):
    """An engine that tells how far its start is. The worker sets ``on_progress`` before ``start``, and announces what
    it hears: a line for people and a fraction 0-1. It may be called from any thread."""

    on_progress: Callable[[str, float], None]


@runtime_checkable
class TracesSteps(Protocol):
    """An engine that tells every step it makes, as ``contracts/step.py`` has it.

    The worker sets ``on_steps`` before ``start``; it is called in the event loop's thread, with steps in their order,
    never blocks and never raises. An engine that cannot trace after all serves without, and ``trace().unavailable``
    says why.
    """

    on_steps: Callable[[Sequence[EngineStep]], None]

    def trace(self) -> TraceState:
        """The mode, the last step and the steps lost; ``first_kept`` is the worker's to fill in."""
        ...

    async def set_trace(self, mode: TraceMode, every: int) -> TraceState:
        """From the next step on; ``every`` counts with SAMPLED only. Raises Conflict where no step can be told,
        WorkerLost when the engine is not running."""
        ...

    async def blocks(self) -> BlockSnapshot:
        """The KV cache now, whatever the trace. Raises Conflict and WorkerLost like ``set_trace``."""
        ...


@runtime_checkable
class TellsKvEvents(Protocol):
    """An engine that tells which blocks its prefix cache holds, as ``contracts/kv_events.py`` has it, from its start.

    The worker sets ``on_kv_events`` before ``start``; it is called in the event loop's thread, with batches in their
    order, or with none where ``no_kv_events`` has changed. It never blocks and never raises. An engine that cannot
    tell them after all serves without.
    """

    on_kv_events: Callable[[Sequence[KvBatch]], None]

    def no_kv_events(self) -> str:
        """Why there are none; empty where there are."""
        ...

    def cached_blocks(self) -> KvSnapshot:
        """All that can be hit after the last batch, told or lost; in one piece."""
        ...


def no_events(asked: bool, prefix_caching: bool) -> str:
    """Why an engine that could tell KV events tells none; empty where it does."""
    if not asked:
        return "KV events are off: kv_events of the pool"
    return "" if prefix_caching else "the engine has no prefix cache"


@runtime_checkable
class Fails(Protocol):
    """An engine that can be made to fail, to learn from it."""

    def inject(self, failure: Failure) -> None: ...

    def heal(self) -> None:
        """End all failures, those to come too. What has died stays dead."""
        ...

    def failures(self) -> tuple[Failure, ...]:
        """Those that are on or to come."""
        ...


@runtime_checkable
class Sleeps(Protocol):
    """An engine that can give its device's memory back, and take it again.

    At level 1 the weights move to the host's memory, at level 2 they are discarded; what the KV cache held is lost at
    either, and KV events say so. It is told so only while nothing runs, and gets no calls until it is awake again.

    A Conflict has changed nothing. Any other error leaves an engine that can serve nothing more: it is dead, as
    ``dead`` then says.
    """

    def no_sleep(self) -> str:
        """Why it can't; empty where it can."""
        ...

    async def sleep(self, level: int) -> None:
        """Returns when it sleeps. Raises Conflict where ``no_sleep`` has a reason, where calls are open, and where it
        sleeps already; WorkerLost when the engine is not running."""
        ...

    async def wake(self) -> None:
        """Returns when it takes calls. Raises Conflict where it does not sleep, and WorkerLost."""
        ...


@runtime_checkable
class Publishes(Protocol):
    """An engine with gRPC services of its own, mounted on the worker's port.

    ``published`` takes the ``grpc.aio.Server`` before it starts, and returns the full names of the services it added.
    """

    def published(self, server: Any) -> Sequence[str]: ...
