from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control_plane.contracts.sizing.gpus import Gpu, gpu_named
from control_plane.contracts.sizing.model_shape import Experts, ModelShape
from control_plane.contracts.sizing.roofline import (
    CEILING,
    TYPICAL,
    Bound,
    Roofline,
    Row,
    StepTime,
    attended,
    step_time,
)
from tests.unit.contracts.sizing.shapes import gpus, published, shapes

H100 = gpu_named("H100")
rows = st.builds(Row, st.integers(1, 512), st.integers(0, 20_000))
decodes = st.builds(Row, st.just(1), st.integers(0, 20_000))


def test_one_request_reads_the_weights_once_a_token() -> None:
    """8.03 B parameters less the embedding, two bytes each, over 3.35 TB/s; and 1,001 tokens of 128 KiB."""
    line = Roofline(published("Llama-3.1-8B"), H100)
    step = line.decode_step(1, 1000)
    assert step.weights_s == pytest.approx((8_030_261_248 - 128_256 * 4096) * 2 / 3.35e12)
    assert step.kv_s == pytest.approx(1001 * 128 * 1024 / 3.35e12)
    assert (step.compute_s, step.links_s, step.overhead_s) == (0, 0, 0)
    assert step.bound is Bound.WEIGHTS


def test_a_long_prompt_is_bound_by_arithmetic() -> None:
    """Two operations a parameter and token, and attention's four for each pair of tokens, head and dimension."""
    shape = published("Llama-3.1-8B")
    step = step_time(shape, H100, 1, [Row(4096, 0)])
    linear = shape.parameters - 2 * 128_256 * 4096
    pairs = 4096 * 4097 / 2
    assert step.compute_s == pytest.approx((2 * linear * 4096 + 4 * 32 * 32 * 128 * pairs) / 989.4e12)
    assert step.bound is Bound.COMPUTE


def test_many_long_requests_are_bound_by_the_cache() -> None:
    assert Roofline(published("Llama-3.1-8B"), H100).decode_step(64, 8192).bound is Bound.KV


def test_a_slow_link_bounds_a_split_prefill() -> None:
    assert step_time(published("Llama-3.1-70B"), gpu_named("L40S"), 8, [Row(4096, 0)]).bound is Bound.LINKS


def test_a_batch_touches_more_experts_than_one_token() -> None:
    experts = Experts(1, 8, 2, 64)
    assert experts.touched(0) == 0
    assert experts.touched(1) == pytest.approx(2)
    assert experts.touched(2) == pytest.approx(8 * (1 - 0.75**2))
    assert experts.touched(1000) == pytest.approx(8)


def test_a_mixture_reads_only_what_is_touched() -> None:
    shape = published("Qwen3-30B-A3B")
    line = Roofline(shape, H100)
    alone, full = line.decode_step(1, 1).weights_s, line.decode_step(200, 1).weights_s
    assert alone == pytest.approx((shape.active_parameters - 151_936 * 2048) * 2 / 3.35e12, rel=1e-3)
    assert full == pytest.approx((shape.parameters - 151_936 * 2048) * 2 / 3.35e12, rel=1e-3)


def test_a_latent_is_read_once_for_all_heads() -> None:
    step = Roofline(published("DeepSeek-V3"), gpu_named("H200"), 8).decode_step(1, 9999)
    assert step.kv_s == pytest.approx(10_000 * 70_272 / 4.8e12)


def test_a_window_bounds_what_is_read() -> None:
    line = Roofline(published("Mistral-7B"), H100)
    assert line.decode_step(1, 4096) == line.decode_step(1, 30_000)


def test_fp8_is_half_the_bytes_and_twice_the_rate_where_there_are_units() -> None:
    whole, half = published("Qwen3-32B"), published("Qwen3-32B-FP8")
    prompt = [Row(8192, 0)]
    assert step_time(half, H100, 1, prompt).seconds < 0.6 * step_time(whole, H100, 1, prompt).seconds
    a100 = gpu_named("A100")
    assert step_time(half, a100, 1, prompt).seconds == pytest.approx(step_time(whole, a100, 1, prompt).seconds)
    assert step_time(half, a100, 1, [Row(1, 9)]).seconds < 0.6 * step_time(whole, a100, 1, [Row(1, 9)]).seconds


def test_an_empty_step_takes_no_time() -> None:
    line = Roofline(published("Llama-3.1-8B"), H100)
    assert line.step_time([]) == line.step_time([Row(0, 50)]) == line.decodes(0, 0) == StepTime()


def test_what_is_reached_is_slower_than_what_is_published() -> None:
    line = Roofline(published("Llama-3.1-70B"), H100, 4)
    best, usual = line.decode_step(8, 500, CEILING), line.decode_step(8, 500, TYPICAL)
    assert usual.weights_s == pytest.approx(best.weights_s / 0.8)
    assert usual.overhead_s == 1e-3
    assert usual.links_s == pytest.approx(best.links_s / 0.7 + 160 * 10e-6)


def test_prefill_in_chunks_and_from_a_cached_prefix() -> None:
    line = Roofline(published("Llama-3.1-8B"), H100)
    whole = line.prefill(4096)
    assert whole == line.step_time([Row(4096, 0)]).seconds
    assert line.prefill(4096, chunk=512) >= whole
    assert line.prefill(4096, cached=4000) < whole
    assert line.prefill(10, cached=10) == 0


@given(st.lists(decodes, max_size=20))
def test_decodes_by_their_sum_are_decodes_one_by_one(batch: list[Row]) -> None:
    line = Roofline(published("Llama-3.1-8B"), H100, 2)
    by_sum = line.decodes(len(batch), sum(row.context for row in batch), TYPICAL)
    assert by_sum.seconds == pytest.approx(line.step_time(batch, TYPICAL).seconds)


@given(st.integers(1, 60), st.integers(0, 60), st.integers(0, 80))
def test_pairs_are_those_counted_one_by_one(tokens: int, context: int, window: int) -> None:
    each = [context + i + 1 for i in range(tokens)]
    assert attended(Row(tokens, context), window) == sum(min(seen, window) if window else seen for seen in each)


@given(shapes, gpus, st.lists(rows, min_size=1, max_size=6), rows, st.integers(0, 5), st.integers(1, 5000))
@settings(deadline=None)
def test_more_work_never_takes_less_time(
    shape: ModelShape, gpu: Gpu, batch: list[Row], added: Row, at: int, further: int
) -> None:
    line = Roofline(shape, gpu)
    seconds = line.step_time(batch, TYPICAL).seconds
    assert 0 < seconds <= line.step_time([*batch, added], TYPICAL).seconds
    deeper = [*batch]
    row = deeper[at % len(deeper)]
    deeper[at % len(deeper)] = Row(row.tokens, row.context + further)
    assert seconds <= line.step_time(deeper, TYPICAL).seconds
    assert line.step_time(batch, CEILING).seconds < seconds
