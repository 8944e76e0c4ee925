"""A plan as JSON data: bytes, seconds and tokens, unrounded."""

from __future__ import annotations

from typing import Any

from console.plain.data import plain
from control_plane.contracts.sizing.catalogue import PublishedModel
from control_plane.contracts.sizing.explain import explain
from control_plane.contracts.sizing.gpus import Gpu
from control_plane.contracts.sizing.plan import Plan, Split
from control_plane.contracts.sizing.roofline import StepTime


def plan_data(made: Plan, ways: list[str], *, explained: bool) -> dict[str, Any]:
    shape, memory, speed = made.shape, made.memory, made.speed
    data: dict[str, Any] = {
        "model": {
            "name": shape.name,
            "architecture": shape.family,
            "parameters": shape.parameters,
            "active_parameters": shape.active_parameters,
            "layers": shape.layers,
            "heads": shape.heads,
            "kv_heads": shape.kv_heads,
            "head_dim": shape.head_dim,
            "attention": [plain(kind) for kind in shape.kinds],
            "max_context": shape.max_context,
            "weight_format": shape.weight_format.name,
            "kv_format": made.kv.name,
            "weight_bytes": round(shape.weight_bytes),
        },
        "gpu": plain(made.gpu),
        "tp": made.tp,
        "traffic": plain(made.traffic),
        "engine": plain(made.settings),
        "fits": made.fits,
        "max_concurrency": made.requests,
        "vllm_reported_concurrency": round(made.reported_concurrency, 2),
        "fewest_gpus": made.fewest.tp if made.fewest else None,
        "fewest_gpus_for_weights": made.fewest_for_weights.tp if made.fewest_for_weights else None,
        "ways_to_fit": ways,
        "memory_per_gpu_bytes": {
            "total": memory.total,
            "budget": round(memory.budget),
            "weights": round(memory.weights),
            "activations": round(memory.activations),
            "overhead": round(memory.overhead),
            "kv_room": round(memory.kv_room),
            "kv_needed": made.kv_needed,
            "free": round(made.free),
        },
        "kv_cache": {
            "bytes_per_token": round(made.kv_token),
            "bytes_per_token_per_gpu": round(made.kv_token_per_gpu),
            "bytes_per_request_per_gpu": made.kv_request_per_gpu,
            "block_size": made.layout.block_size,
            "block_bytes_per_gpu": made.layout.block_bytes,
            "blocks": made.blocks,
        },
        "splits": [_split(split) for split in made.splits],
        "speed_at_best": {
            "decode_alone": {"tokens_per_s": speed.alone_rate, **_step(speed.alone)},
            "decode_together": {
                "requests": speed.requests,
                "tokens_per_s": speed.together_rate,
                **_step(speed.together),
            },
            "prefill": {"tokens_per_s": speed.prefill_rate, **_step(speed.prefill)},
            "ttft_s": speed.ttft_s,
        },
        "cost_at_least": {**plain(made.cost), "requests_per_s": made.cost.requests_per_s} if made.cost else None,
        "notes": list(made.notes),
    }
    if explained:
        data["explain"] = [plain(entry) for entry in explain(made)]
    return data


def _split(split: Split) -> dict[str, Any]:
    return {
        "tp": split.tp,
        "weights_bytes_per_gpu": round(split.memory.weights),
        "kv_room_bytes_per_gpu": round(split.memory.kv_room),
        "max_concurrency": split.requests,
    }


def _step(step: StepTime) -> dict[str, Any]:
    return {"seconds": step.seconds, "bound": step.bound.value, **plain(step)}


def known_data(models: tuple[PublishedModel, ...], gpus: tuple[Gpu, ...]) -> dict[str, Any]:
    """What ``--list`` knows."""
    return {
        "models": [
            {
                "name": model.name,
                "repo": model.repo,
                "parameters": shape.parameters,
                "active_parameters": shape.active_parameters,
                "weight_bytes": round(shape.weight_bytes),
                "weight_format": shape.weight_format.name,
                "kv_bytes_per_token": round(shape.kv_bytes_per_token()),
                "max_context": shape.max_context,
                "source": model.source,
            }
            for model in models
            for shape in (model.shape(),)
        ],
        "gpus": [plain(gpu) for gpu in gpus],
    }
