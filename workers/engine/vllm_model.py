"""What of a model vLLM knows and we need: its class, its tokens' bytes, its figures, its tokenizer's files."""

from __future__ import annotations

import json
import logging
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from vllm.model_executor.models import registry

from control_plane.contracts.worker import ModelInfo
from control_plane.contracts.worker_spec import WorkerSpec
from workers.engine.base import TokenizerFile
from workers.engine.token_bytes import TokenBytes

_log = logging.getLogger(__name__)
_TOKENIZER_FILES = (
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "config.json",
    "generation_config.json",
    "merges.txt",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
)


def register_in_process(folder: Path) -> None:
    """Load the class of the folder's model here and now.

    vLLM would do it in a process of its own, so as not to touch a GPU; without one that only costs seconds.
    """
    try:
        models = registry.ModelRegistry.models
        for name in json.loads((folder / "config.json").read_text())["architectures"]:
            if isinstance(models.get(name), registry._LazyRegisteredModel):
                models[name] = registry._RegisteredModel.from_model_cls(models[name].load_model_cls())
    except Exception as error:
        _log.info("vLLM will inspect the model in a process of its own: %s", error)


def fast_bfloat16() -> bool:
    """Whether this processor multiplies bfloat16 matrices in hardware; for others than x86 it is taken for granted."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return True
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def token_bytes(tokenizer: Any, folder: Path) -> TokenBytes:
    """The bytes of each token of a tokenizer that vLLM has loaded from the folder."""
    fast = getattr(tokenizer, "_tokenizer", None)
    spelling = fast.id_to_token if fast is not None else tokenizer.convert_ids_to_tokens
    decoder: Any = {}
    if (path := folder / "tokenizer.json").is_file():
        decoder = json.loads(path.read_text(encoding="utf-8")).get("decoder") or {}
    kinds = {decoder.get("type"), *(part.get("type") for part in decoder.get("decoders", ()))}
    special = tuple(tokenizer.get_added_vocab().values())
    return TokenBytes(spelling, byte_level="ByteLevel" in kinds, special=special)


def tokenizer_files(folder: Path) -> Sequence[TokenizerFile]:
    return [TokenizerFile(name, path.read_bytes()) for name in _TOKENIZER_FILES if (path := folder / name).is_file()]


def usable_blocks(config: Any) -> int:
    """KV blocks that requests can have; vLLM's block 0 is a placeholder."""
    return int(config.cache_config.num_gpu_blocks) - 1


def model_info(spec: WorkerSpec, revision: str, config: Any) -> ModelInfo:
    """From the engine's own configuration, after it has started."""
    model, cache, scheduler, parallel = (
        config.model_config,
        config.cache_config,
        config.scheduler_config,
        config.parallel_config,
    )
    return ModelInfo(
        name=spec.model,
        source=spec.source,
        revision=revision,
        dtype=str(model.dtype).removeprefix("torch."),
        max_context=model.max_model_len,
        vocab_size=model.get_vocab_size(),
        block_size=cache.block_size,
        total_blocks=usable_blocks(config),
        kv_bytes=cache.kv_cache_memory_bytes or _kv_bytes(config),
        tensor_parallel=parallel.tensor_parallel_size,
        max_num_seqs=scheduler.max_num_seqs,
        max_num_batched_tokens=scheduler.max_num_batched_tokens,
    )


def _kv_bytes(config: Any) -> int:
    """Of all ranks, where vLLM chose the size: keys and values of every layer, for models with ordinary attention."""
    model, cache, parallel = config.model_config, config.cache_config, config.parallel_config
    item = 1 if "8" in cache.cache_dtype else model.dtype.itemsize
    per_token = 2 * model.get_total_num_kv_heads() * model.get_head_size() * item
    return int(cache.num_gpu_blocks * cache.block_size * per_token * model.get_num_layers(parallel))
