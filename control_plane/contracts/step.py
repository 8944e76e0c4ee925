"""What an engine did, step by step, as plain values.

Field names equal those of ``v1/worker.proto``, which documents each of them; ``wire`` converts both ways. Durations
are seconds, ``*_unix`` is wall clock of the worker's machine, tokens and blocks are counts, block numbers are indexes
into the engine's pool. vLLM and the simulator publish the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class StepKind(Enum):
    UNSPECIFIED = 0
    PREFILL = 1
    LAST_PREFILL = 2
    DECODE = 3


class TraceMode(Enum):
    UNSPECIFIED = 0
    OFF = 1
    SAMPLED = 2
    FULL = 3


@dataclass(frozen=True, slots=True)
class StepRow:
    """One request's part of one step. ``new_blocks`` continue the request's table, or begin it anew where the request
    joins or resumes: apply them with ``block_tables.BlockTables``."""

    request_id: str
    kind: StepKind
    tokens: int
    computed: int
    prompt_tokens: int
    output_tokens: int = 0
    cached_tokens: int = 0
    priority: int = 0
    joined: bool = False
    resumed: bool = False
    new_blocks: tuple[int, ...] = ()
    blocks: int = 0


@dataclass(frozen=True, slots=True)
class StepWaiting:
    request_id: str
    tokens: int
    priority: int = 0
    preempted: bool = False


@dataclass(frozen=True, slots=True)
class StepFinished:
    """``reason``: stop, length, abort or error."""

    request_id: str
    reason: str
    output_tokens: int = 0
    freed_blocks: int = 0


@dataclass(frozen=True, slots=True)
class EngineStep:
    """``batch`` is how many rows ran, also where ``rows`` is narrowed to one request's; 0 where nobody knows."""

    step: int
    started_unix: float
    schedule_s: float = 0.0
    execute_s: float = 0.0
    tokens: int = 0
    rows: tuple[StepRow, ...] = ()
    waiting: tuple[StepWaiting, ...] = ()
    waiting_total: int = 0
    preempted: tuple[str, ...] = ()
    finished: tuple[StepFinished, ...] = ()
    total_blocks: int = 0
    used_blocks: int = 0
    cached_free_blocks: int = 0
    free_blocks: int = 0
    dropped: int = 0
    batch: int = 0


@dataclass(frozen=True, slots=True)
class BlockTable:
    request_id: str
    blocks: tuple[int, ...] = ()
    computed: int = 0


@dataclass(frozen=True, slots=True)
class SharedBlock:
    block: int
    references: int


@dataclass(frozen=True, slots=True)
class BlockSnapshot:
    """The whole KV cache after ``step``: used + cached_free + free = total."""

    step: int
    taken_unix: float = 0.0
    block_size: int = 0
    total_blocks: int = 0
    used_blocks: int = 0
    cached_free_blocks: int = 0
    free_blocks: int = 0
    tables: tuple[BlockTable, ...] = ()
    shared: tuple[SharedBlock, ...] = ()
    cached_free: tuple[int, ...] = ()
    waiting: tuple[StepWaiting, ...] = ()


@dataclass(frozen=True, slots=True)
class TraceState:
    """``unavailable`` says why an engine gives no steps; it is empty where it does."""

    mode: TraceMode = TraceMode.OFF
    every: int = 1
    unavailable: str = ""
    step: int = 0
    first_kept: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class StepFrame:
    """What a watcher is sent. ``base``, the tables that the steps continue, comes before the first step, and again
    after a slow watcher lost steps: begin anew with it."""

    steps: tuple[EngineStep, ...] = ()
    trace: TraceState = TraceState()
    base: BlockSnapshot | None = None
