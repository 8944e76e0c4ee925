"""The models and GPUs that the planner knows, as tables."""

from __future__ import annotations

from console.plain.table import Column
from control_plane.contracts.sizing.catalogue import PublishedModel
from control_plane.contracts.sizing.gpus import Gpu
from control_plane.contracts.sizing.model_shape import ModelShape
from control_plane.contracts.sizing.quantity import count, in_bytes, three

Known = tuple[PublishedModel, ModelShape]

MODEL_COLUMNS: tuple[Column[Known], ...] = (
    Column("MODEL", lambda known: known[0].name, keep=9),
    Column("PARAMS", lambda known: count(known[1].parameters), right=True, keep=8),
    Column("ACTIVE", lambda known: count(known[1].active_parameters), right=True, keep=4),
    Column("WEIGHTS", lambda known: in_bytes(known[1].weight_bytes), right=True, keep=7),
    Column("KV/TOKEN", lambda known: in_bytes(known[1].kv_bytes_per_token()), right=True, keep=6),
    Column("CONTEXT", lambda known: f"{known[1].max_context:,}", right=True, keep=5),
    Column("SOURCE", lambda known: known[0].source, keep=1),
)

GPU_COLUMNS: tuple[Column[Gpu], ...] = (
    Column("GPU", lambda gpu: gpu.name, keep=9),
    Column("MEMORY", lambda gpu: in_bytes(gpu.memory_bytes), right=True, keep=8),
    Column("TB/S", lambda gpu: three(gpu.bandwidth / 1e12), right=True, keep=7),
    Column("BF16", lambda gpu: three(gpu.bf16 / 1e12), right=True, keep=6),
    Column("FP8", lambda gpu: three(gpu.fp8 / 1e12) if gpu.fp8 else "–", right=True, keep=5),
    Column("INT8", lambda gpu: three(gpu.int8 / 1e12), right=True, keep=4),
    Column("LINK", lambda gpu: f"{three(gpu.link / 1e9)} GB/s {gpu.link_name}", keep=3),
    Column("SOURCE", lambda gpu: gpu.source, keep=1),
)
"""Rates in TFLOP/s (TOP/s), dense."""
