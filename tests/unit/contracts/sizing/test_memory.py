from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.sizing.gpus import GIB, Gpu, gpu_named
from control_plane.contracts.sizing.memory import (
    EngineSettings,
    absorbed_bytes,
    check_tp,
    engine_defaults,
    gpu_memory,
    possible_tp,
)
from control_plane.contracts.sizing.model_shape import ModelShape
from tests.unit.contracts.sizing.shapes import gpus, published, shapes


def test_llama_3_8b_on_an_h100_as_vllm_logged_it() -> None:
    """vllm-project/vllm pull request 10511, Meta-Llama-3-8B on a device of 79.22 GiB with 256 sequences: weights
    14.96 GiB, activations 1.26 GiB. The model has the same shape as Llama 3.1.
    """
    settings = EngineSettings(max_num_batched_tokens=8192, max_num_seqs=256)
    memory = gpu_memory(published("Llama-3.1-8B"), gpu_named("H100"), 1, settings)
    assert memory.weights / GIB == pytest.approx(14.96, abs=0.005)
    assert memory.activations / GIB == pytest.approx(1.26, rel=0.35)


def test_two_gpus_halve_the_weights_as_vllm_logged() -> None:
    """The same pull request: 7.48 GiB each with ``-tp 2``."""
    memory = gpu_memory(published("Llama-3.1-8B"), gpu_named("H100"), 2, EngineSettings())
    assert memory.weights / GIB == pytest.approx(7.48, abs=0.01)


def test_a_latent_model_holds_its_up_projections_twice() -> None:
    shape = published("DeepSeek-V3")
    assert absorbed_bytes(shape, 1) == 61 * 512 * 128 * 256 * 2
    assert absorbed_bytes(published("Llama-3.1-8B"), 1) == 0


@pytest.mark.parametrize(
    ("gpu", "tokens", "seqs"),
    [("H100", 8192, 1024), ("A100", 2048, 256), ("B200", 16384, 1024), ("L4", 2048, 256), ("MI300X", 16384, 1024)],
)
def test_what_vllm_takes_by_itself(gpu: str, tokens: int, seqs: int) -> None:
    settings = engine_defaults(gpu_named(gpu))
    assert (settings.max_num_batched_tokens, settings.max_num_seqs) == (tokens, seqs)
    assert settings.in_flight == 2 * tokens


@pytest.mark.parametrize(
    ("name", "tp", "hint"),
    [
        ("SmolLM2-135M", 2, "--tp 3"),
        ("SmolLM2-135M", 4, "--tp 3"),
        ("Llama-3.1-8B", 3, "--tp 4"),
        ("Llama-3.1-8B", 0, "--tp 1"),
        ("Qwen2.5-7B", 7, "--tp 4"),
        ("DeepSeek-V3", 3, "--tp 4"),
    ],
)
def test_a_split_that_leaves_a_rest_is_refused(name: str, tp: int, hint: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_tp(published(name), tp)
    assert (caught.value.param, caught.value.hint) == ("tp", hint)


def test_splits_that_are_possible() -> None:
    assert possible_tp(published("SmolLM2-135M")) == [1, 3]
    assert possible_tp(published("Llama-3.1-70B"), 16) == [1, 2, 4, 8, 16]
    check_tp(published("Qwen3-30B-A3B"), 8)  # four KV heads, each on two GPUs


@given(shapes, gpus)
def test_more_gpus_never_hold_more_each(shape: ModelShape, gpu: Gpu) -> None:
    """Of weights, activations and KV; only the buffers of the links are new."""
    settings = engine_defaults(gpu)
    counts = possible_tp(shape, 16)
    for fewer, more in pairwise(counts):
        before, after = gpu_memory(shape, gpu, fewer, settings), gpu_memory(shape, gpu, more, settings)
        assert after.weights <= before.weights
        assert after.activations <= before.activations
        assert shape.kv_bytes_per_token(tp=more) <= shape.kv_bytes_per_token(tp=fewer)
        assert after.weights * more >= before.weights * fewer * (1 - 1e-9)  # nothing gets lost


@given(shapes, gpus, st.integers(1, 1 << 16), st.integers(1, 4096))
def test_larger_batches_never_need_less(shape: ModelShape, gpu: Gpu, tokens: int, rows: int) -> None:
    small = gpu_memory(shape, gpu, 1, EngineSettings(tokens, rows))
    large = gpu_memory(shape, gpu, 1, EngineSettings(tokens + 1, rows + 1))
    assert small.activations <= large.activations
    assert small.kv_room >= large.kv_room


def test_eager_needs_no_graphs() -> None:
    shape, gpu = published("Llama-3.1-8B"), gpu_named("L4")
    eager = gpu_memory(shape, gpu, 1, EngineSettings(enforce_eager=True))
    assert eager.kv_room - gpu_memory(shape, gpu, 1, EngineSettings()).kv_room == 32 * 12 * (1 << 20)
