"""A step on its way out of the engine core's process: flat tuples of numbers and strings, as MessagePack.

The core makes one of these per step in vLLM's own loop, where dataclasses would cost several times as much. Either
side knows the order of the fields from here alone. A waiting queue that is the same as the step before is not repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from control_plane.contracts.step import (
    BlockSnapshot,
    BlockTable,
    EngineStep,
    SharedBlock,
    StepFinished,
    StepKind,
    StepRow,
    StepWaiting,
)

Row: TypeAlias = tuple[str, int, int, int, int, int, int, int, bool, bool, Sequence[int], int]
"""The fields of ``StepRow`` in their order, ``kind`` by its number."""

Waiting: TypeAlias = tuple[str, int, int, bool]
Finished: TypeAlias = tuple[str, str, int, int]

PREFILL, LAST_PREFILL, DECODE = StepKind.PREFILL.value, StepKind.LAST_PREFILL.value, StepKind.DECODE.value

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder()
_kinds = tuple(StepKind(number) for number in range(len(StepKind)))


def encode_step(
    *,
    step: int,
    started_unix: float,
    schedule_s: float,
    execute_s: float,
    tokens: int,
    rows: Sequence[Row],
    waiting: Sequence[Waiting] | None,
    waiting_total: int,
    preempted: Sequence[str],
    finished: Sequence[Finished],
    total_blocks: int,
    used_blocks: int,
    cached_free_blocks: int,
    dropped: int,
) -> bytes:
    """``waiting`` None means: as in the step told before this one."""
    return _encoder.encode(
        (
            (step, started_unix, schedule_s, execute_s, tokens),
            rows,
            waiting,
            (waiting_total, total_blocks, used_blocks, cached_free_blocks, dropped),
            preempted,
            finished,
        )
    )


def _row(
    name: str,
    kind: int,
    tokens: int,
    computed: int,
    prompt: int,
    output: int,
    cached: int,
    priority: int,
    joined: bool,
    resumed: bool,
    new_blocks: Sequence[int],
    blocks: int,
) -> StepRow:
    kinds, new = _kinds, tuple(new_blocks)
    return StepRow(name, kinds[kind], tokens, computed, prompt, output, cached, priority, joined, resumed, new, blocks)


class StepDecoder:
    """Reads what one engine told, in its order: decoded, but not yet a step."""

    def __init__(self) -> None:
        self._waiting: tuple[StepWaiting, ...] = ()

    def step(self, fields: Any) -> EngineStep:
        """Raises ValueError or TypeError for what is none."""
        (step, started, schedule_s, execute_s, tokens), rows, waiting, counts, preempted, finished = fields
        waiting_total, total, used, cached_free, dropped = counts
        if waiting is not None:
            self._waiting = tuple(StepWaiting(*entry) for entry in waiting)
        return EngineStep(
            step,
            started,
            schedule_s,
            execute_s,
            tokens,
            tuple(_row(*row) for row in rows),
            self._waiting,
            waiting_total,
            tuple(preempted),
            tuple(StepFinished(*entry) for entry in finished),
            total,
            used,
            cached_free,
            total - used - cached_free,
            dropped,
            len(rows),
        )


def encode_snapshot(
    head: tuple[int, float, int, int, int, int],
    tables: Sequence[tuple[str, Sequence[int], int]],
    shared: Sequence[tuple[int, int]],
    cached_free: Sequence[int],
    waiting: Sequence[Waiting],
) -> bytes:
    """``head``: step, taken_unix, block_size, total, used and cached-free blocks."""
    return _encoder.encode((head, tables, shared, cached_free, waiting))


def decode_snapshot(data: bytes) -> BlockSnapshot:
    head, tables, shared, cached_free, waiting = _decoder.decode(data)
    step, taken_unix, block_size, total, used, cached = head
    return BlockSnapshot(
        step,
        taken_unix,
        block_size,
        total,
        used,
        cached,
        total - used - cached,
        tuple(BlockTable(name, tuple(blocks), computed) for name, blocks, computed in tables),
        tuple(SharedBlock(*entry) for entry in shared),
        tuple(cached_free),
        tuple(StepWaiting(*entry) for entry in waiting),
    )


def encode(value: Any) -> bytes:
    return _encoder.encode(value)


def decode(data: bytes) -> Any:
    """Raises ``msgspec.DecodeError`` for bytes that are no MessagePack."""
    return _decoder.decode(data)
