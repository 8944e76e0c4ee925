"""What the planner works out, against vLLM's own bookkeeping and the models as transformers builds them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from console.checkpoint_config import local_config
from control_plane.contracts.sizing.catalogue import PublishedModel, published_model, published_models
from control_plane.contracts.sizing.config_json import shape_from_config
from control_plane.contracts.sizing.kv_cache import kv_layout
from control_plane.contracts.sizing.memory import possible_tp
from control_plane.contracts.sizing.model_shape import Attention, ModelShape, Use
from control_plane.contracts.sizing.number_format import weight_format
from tests.contract.engines import engine_spec
from tests.real_vllm.asker import Asker
from workers import weights

ROOM = 20 << 30
MODELS = [pytest.param(model, id=model.name) for model in published_models()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built-in model, as it was converted."""
    spec = engine_spec("vllm", tmp_path_factory.mktemp("sizing"))
    return weights.resolve(spec.source, cache_dir=Path(spec.cache_dir), offline=True).folder


@dataclass(frozen=True)
class Bookkeeping:
    blocks: int
    concurrency: float


def bookkeeping(config: Any, specs: dict[str, Any], room: int) -> Bookkeeping:
    """What vLLM makes of the layers in so much memory."""
    from vllm.v1.core.kv_cache_utils import (
        get_kv_cache_config_from_groups,
        get_kv_cache_groups,
        get_max_concurrency_for_kv_cache_config,
    )

    made = get_kv_cache_config_from_groups(config, get_kv_cache_groups(config, specs), room)
    return Bookkeeping(made.num_blocks, get_max_concurrency_for_kv_cache_config(config, made))


@pytest.fixture(scope="module")
def vllm_config(folder: Path) -> Any:
    from vllm.engine.arg_utils import EngineArgs

    config = EngineArgs(
        model=str(folder),
        skip_tokenizer_init=True,
        enforce_eager=True,
        block_size=32,
        max_model_len=8192,
        max_num_batched_tokens=2048,
    ).create_engine_config()
    config.cache_config.kv_cache_layout = "LBNHC"
    config.scheduler_config.disable_hybrid_kv_cache_manager = False  # as on a GPU
    return config


def specs_of(shape: ModelShape, tp: int) -> dict[str, Any]:
    import torch
    from vllm.v1.kv_cache_interface import FullAttentionSpec, MLAAttentionSpec, SlidingWindowSpec

    common = {"block_size": 16, "head_size": shape.head_dim, "dtype": torch.bfloat16}
    heads = max(1, shape.kv_heads // tp)
    found: dict[str, Any] = {}
    for kind in shape.kinds:
        for _ in range(kind.layers):
            if kind.attention is Attention.SLIDING:
                spec = SlidingWindowSpec(num_kv_heads=heads, sliding_window=kind.window, **common)
            elif kind.attention is Attention.LATENT:
                spec = MLAAttentionSpec(num_kv_heads=1, **common)
            else:  # vLLM keeps chunked layers whole unless told otherwise
                spec = FullAttentionSpec(num_kv_heads=heads, **common)
            found[f"layer.{len(found)}"] = spec
    return found


@pytest.mark.parametrize("model", MODELS)
def test_blocks_and_concurrency_are_vllms_own(model: PublishedModel, vllm_config: Any) -> None:
    """Every published model, split in every way up to eight GPUs, in the same KV memory."""
    shape = model.shape()
    for tp in possible_tp(shape, 8):
        theirs = bookkeeping(vllm_config, specs_of(shape, tp), ROOM)
        layout = kv_layout(shape, tp=tp)
        blocks = layout.blocks(ROOM)
        ours = layout.reported_concurrency(8192, blocks, vllm_config.max_in_flight_tokens)
        assert (blocks, ours) == (theirs.blocks, pytest.approx(theirs.concurrency))


def test_the_converted_model_as_vllm_reads_it(folder: Path, vllm_config: Any) -> None:
    from vllm.v1.kv_cache_interface import FullAttentionSpec

    local = local_config(str(folder))
    assert local is not None
    shape = shape_from_config(local[1], local[0])
    model, parallel = vllm_config.model_config, vllm_config.parallel_config
    spec = FullAttentionSpec(
        block_size=vllm_config.cache_config.block_size,
        num_kv_heads=model.get_num_kv_heads(parallel),
        head_size=model.get_head_size(),
        dtype=model.dtype,
    )
    layers = {f"layer.{number}": spec for number in range(model.get_num_layers(parallel))}
    layout = kv_layout(shape, block_size=32)
    assert layout.blocks(ROOM) == bookkeeping(vllm_config, layers, ROOM).blocks
    assert spec.page_size_bytes == layout.page_bytes
    stored = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    assert shape.weight_bytes <= stored <= shape.weight_bytes + 100_000  # and the header


@pytest.mark.forks
@pytest.mark.asyncio(loop_scope="session")
async def test_a_running_engine_has_the_blocks_that_were_planned(asker: Asker) -> None:
    """In the format that it runs in; less the block that vLLM keeps back."""
    shape = published_model("SmolLM2-135M").shape(weight_format(asker.model.dtype))
    layout = kv_layout(shape, block_size=asker.model.block_size)
    assert asker.engine.load().total_blocks == layout.blocks(asker.model.kv_bytes) - 1 == layout.blocks(256 << 20) - 1


@pytest.mark.parametrize("model", MODELS)
def test_parameters_are_those_of_the_model_itself(model: PublishedModel) -> None:
    """Built without memory by transformers, and counted; its vision tower and buffers are left out."""
    import torch
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM

    config = {**model.config, **model.config.get("text_config", {})}
    family = config["model_type"]
    for name in ("model_type", "architectures", "text_config", "vision_config", "quantization_config", "torch_dtype"):
        config.pop(name, None)
    with torch.device("meta"):
        built = AutoModelForCausalLM.from_config(CONFIG_MAPPING[family](**config))
    shape = model.shape()
    ours = sum(weight.parameters for weight in shape.weights if weight.use is not Use.APART)
    buffers = 58 * 256 if model.name == "DeepSeek-V3" else 0  # the routers' correction is no parameter there
    assert sum(parameter.numel() for parameter in built.parameters()) == ours - buffers
