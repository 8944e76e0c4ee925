"""The memory of one GPU: what weights, activations and the runtime leave for the KV cache.

The budget is vLLM's: ``gpu_memory_utilization`` of the device, less weights, the peak of a forward pass, what CUDA
libraries take while it runs, and CUDA graphs (vllm/v1/worker/gpu_worker.py, ``determine_available_memory``). The CUDA
context itself lies outside the budget.
"""

from __future__ import annotations

from dataclasses import dataclass

from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.sizing.gpus import GIB, Gpu
from control_plane.contracts.sizing.model_shape import ModelShape

_MIB = 1 << 20

RUNTIME_BYTES = round(0.3 * GIB)
RUNTIME_SOURCE = "assumed 0.3 GiB for CUDA libraries: vLLM logs report non_torch_memory of 0.16 to 0.33 GiB on one GPU"
LINK_BYTES = {1: 0, 2: 342 * _MIB, 4: 392 * _MIB}
LINK_SOURCE = "NCCL buffers 342 MiB at two GPUs, 392 MiB from four: ai-dynamo/aiconfigurator, systems/h100_sxm.yaml"
GRAPH_BYTES_PER_LAYER = 12 * _MIB
GRAPH_SOURCE = "assumed 12 MiB a layer for CUDA graphs: vLLM logs report 0.1 to 1.0 GiB in all"
LOGIT_BYTES = 10
LOGIT_SOURCE = "logits 2 B, their float32 copy 4 B, probabilities 4 B"


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """The engine arguments that memory depends on, by vLLM's names and defaults."""

    max_num_batched_tokens: int = 2048
    max_num_seqs: int = 256
    gpu_memory_utilization: float = 0.92
    block_size: int = 16
    enforce_eager: bool = False
    concurrent_batches: int = 2  # async scheduling overlaps two

    @property
    def in_flight(self) -> int:
        """Tokens that can be scheduled and not settled."""
        return self.concurrent_batches * self.max_num_batched_tokens


def engine_defaults(gpu: Gpu) -> EngineSettings:
    """What vLLM 0.32's OpenAI server takes on this GPU (vllm/engine/arg_utils.py, ``get_batch_defaults``)."""
    if gpu.memory_bytes >= 160 * GIB:
        return EngineSettings(max_num_batched_tokens=16384, max_num_seqs=1024)
    if gpu.memory_bytes >= 70 * GIB and not gpu.name.startswith("A100"):
        return EngineSettings(max_num_batched_tokens=8192, max_num_seqs=1024)
    return EngineSettings()


@dataclass(frozen=True, slots=True)
class GpuMemory:
    """Bytes on one GPU. ``kv_room`` is negative where the rest does not fit in the budget."""

    total: int
    budget: float
    weights: float
    activations: float
    overhead: float

    @property
    def kv_room(self) -> float:
        return self.budget - self.weights - self.activations - self.overhead


def gpu_memory(shape: ModelShape, gpu: Gpu, tp: int, settings: EngineSettings) -> GpuMemory:
    return GpuMemory(
        total=gpu.memory_bytes,
        budget=gpu.memory_bytes * settings.gpu_memory_utilization,
        weights=shape.weight_bytes_per_gpu(tp) + absorbed_bytes(shape, tp),
        activations=max(layer_bytes(shape, tp, settings), logit_bytes(shape, settings)),
        overhead=overhead_bytes(shape, tp, settings),
    )


def absorbed_bytes(shape: ModelShape, tp: int) -> float:
    """The second, 16-bit copy of a latent's up-projections that decoding uses (vLLM's ``W_UK_T`` and ``W_UV``)."""
    latent = shape.latent
    if latent is None:
        return 0.0
    return shape.layers * latent.kv_rank * shape.heads * (latent.nope + latent.value) * shape.base_format.bytes / tp


def layer_bytes(shape: ModelShape, tp: int, settings: EngineSettings) -> float:
    """The widest moment of a layer at ``max_num_batched_tokens``: input, residual, norm, the wider of two products."""
    size, tokens = shape.base_format.bytes, settings.max_num_batched_tokens
    queries = shape.heads * (shape.latent.nope + shape.latent.rope if shape.latent else shape.head_dim)
    attention = (2 * queries + 2 * shape.kv_heads * shape.head_dim) / tp
    wide = 3 * shape.intermediate / tp
    if shape.experts is not None:
        inner = shape.experts.intermediate / tp
        wide = max(wide, shape.experts.per_token * (max(2 * inner, shape.hidden) + inner))
    return tokens * (3 * shape.hidden + max(attention, wide)) * size


def logit_bytes(shape: ModelShape, settings: EngineSettings) -> float:
    """Scores of the whole vocabulary for ``max_num_seqs`` rows; they are gathered on every GPU."""
    return settings.max_num_seqs * shape.vocab * LOGIT_BYTES


def overhead_bytes(shape: ModelShape, tp: int, settings: EngineSettings) -> float:
    graphs = 0 if settings.enforce_eager else GRAPH_BYTES_PER_LAYER * shape.layers
    links = LINK_BYTES[1 if tp == 1 else 2 if tp == 2 else 4]
    return RUNTIME_BYTES + links + graphs


def check_tp(shape: ModelShape, tp: int) -> None:
    """Raises InvalidRequest where vLLM could not split the model so (heads, KV heads, feed-forward width)."""
    if tp >= 1 and splits(shape, tp):
        return
    close = min(possible_tp(shape, max(64, tp)), key=lambda count: (abs(count - tp), -count))
    sizes = f"{shape.heads} heads"
    if shape.latent is None:
        sizes += f", {shape.kv_heads} KV heads"
    if shape.intermediate:
        sizes += f", feed-forward {shape.intermediate}"
    raise InvalidRequest(f"tp {tp} does not split {shape.name} evenly ({sizes})", param="tp", hint=f"--tp {close}")


def splits(shape: ModelShape, tp: int) -> bool:
    """Every GPU gets whole heads and an equal part of the layers between; a KV head may be on several GPUs."""
    if shape.heads % tp or shape.intermediate % tp:
        return False
    return shape.kv_heads % tp == 0 or tp % shape.kv_heads == 0


def possible_tp(shape: ModelShape, most: int = 64) -> list[int]:
    return [tp for tp in range(1, most + 1) if splits(shape, tp)]
