from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from control_plane.contracts.sizing.kv_cache import KvGroup, KvLayout, kv_layout
from control_plane.contracts.sizing.model_shape import ModelShape
from tests.unit.contracts.sizing.shapes import published, shapes

contexts = st.integers(1, 200_000)
in_flights = st.integers(1, 32_768)


def test_one_kind_of_layers_is_one_group() -> None:
    layout = kv_layout(published("Llama-3.1-8B"))
    assert (layout.layers_per_group, layout.groups) == (32, (KvGroup(0),))
    assert layout.block_bytes == 16 * 128 * 1024
    assert layout.needed_blocks(8192, 3, 4096) == 3 * 512


def test_several_kinds_are_padded_to_equal_groups() -> None:
    """Gemma 3: 10 full and 52 sliding layers; six groups of ten hold the 52."""
    layout = kv_layout(published("Gemma-3-27B"))
    assert layout.layers_per_group == 10
    assert [group.window for group in layout.groups] == [0] + [1024] * 6


def test_kinds_of_nearly_equal_number_take_the_larger() -> None:
    layout = kv_layout(published("Gemma-2-9B"))
    assert (layout.layers_per_group, len(layout.groups)) == (21, 2)


def test_without_the_hybrid_manager_windows_save_nothing() -> None:
    layout = kv_layout(published("Gemma-3-27B"), hybrid=False)
    assert (layout.layers_per_group, layout.groups) == (62, (KvGroup(0),))


def test_chunked_attention_is_kept_whole() -> None:
    assert kv_layout(published("Llama-4-Scout-17B-16E")).groups == (KvGroup(0),)


def test_fewer_kv_heads_than_gpus_are_held_more_than_once() -> None:
    shape = published("Qwen3-30B-A3B")
    assert kv_layout(shape, tp=4).block_bytes == kv_layout(shape, tp=8).block_bytes


def test_a_window_holds_itself_wherever_it_lies_in_its_blocks() -> None:
    group = KvGroup(128)
    assert group.steady(10_000, 16) == 9
    assert group.steady(20, 16) == 2
    assert group.peak(10_000, 16, 2048) == 137


def test_the_most_requests_fit_and_one_more_does_not() -> None:
    layout = kv_layout(published("Gemma-3-27B"))
    blocks = 15_000
    most = layout.most_requests(8192, blocks, 16_384)
    assert layout.needed_blocks(8192, most, 16_384) <= blocks - 1 < layout.needed_blocks(8192, most + 1, 16_384)


def test_no_room_is_no_requests() -> None:
    layout = kv_layout(published("Llama-3.1-8B"))
    assert layout.blocks(-5) == 0
    assert layout.most_requests(1, 0, 1) == 0
    assert layout.most_requests(1, 1, 1) == 0  # vLLM keeps one back


@given(shapes, contexts, contexts, st.integers(1, 300), in_flights)
def test_more_context_never_needs_less(shape: ModelShape, a: int, b: int, requests: int, in_flight: int) -> None:
    layout, (short, long) = kv_layout(shape), sorted((a, b))
    assert layout.needed_blocks(short, requests, in_flight) <= layout.needed_blocks(long, requests, in_flight)
    assert layout.peak_blocks(short, in_flight) <= layout.peak_blocks(long, in_flight)
    assert layout.most_requests(short, 5000, in_flight) >= layout.most_requests(long, 5000, in_flight)


@given(shapes, contexts, st.integers(1, 300), in_flights)
def test_more_requests_never_need_less(shape: ModelShape, context: int, requests: int, in_flight: int) -> None:
    layout = kv_layout(shape)
    fewer, more = (layout.needed_blocks(context, count, in_flight) for count in (requests, requests + 1))
    assert fewer <= more
    assert more <= (requests + 1) * layout.peak_blocks(context, in_flight)


@given(shapes, st.integers(1, 64), contexts)
def test_windows_never_need_more_than_whole_layers(shape: ModelShape, requests: int, context: int) -> None:
    """Up to the padding that equal groups cost, and the tokens in flight."""
    layout, whole = kv_layout(shape), kv_layout(shape, hybrid=False)
    padded = layout.layers_per_group * len(layout.groups)
    bound = KvLayout(16, layout.page_bytes, padded, (KvGroup(0),))
    windowed = any(group.window for group in layout.groups)
    needed = layout.needed_blocks(context, requests, 1) * layout.block_bytes
    slack = (requests + 1) * len(layout.groups) * layout.block_bytes if windowed else 0
    assert needed <= bound.needed_blocks(context, requests, 1) * bound.block_bytes + slack
    assert padded >= whole.layers_per_group
