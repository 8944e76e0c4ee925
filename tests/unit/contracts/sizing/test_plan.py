from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.sizing.catalogue import published_model
from control_plane.contracts.sizing.explain import explain
from control_plane.contracts.sizing.gpus import GIB, Gpu, gpu_named
from control_plane.contracts.sizing.memory import EngineSettings, engine_defaults
from control_plane.contracts.sizing.model_shape import ModelShape
from control_plane.contracts.sizing.number_format import FP8, weight_format
from control_plane.contracts.sizing.plan import Plan, Traffic, plan, ways_to_fit, with_settings
from control_plane.contracts.sizing.roofline import Roofline
from tests.unit.contracts.sizing.shapes import gpus, published, shapes


def work_out(model: str, gpu: str, context: int = 8192, concurrency: int = 1, **fields: Any) -> Plan:
    device = gpu_named(gpu)
    return plan(published(model), device, Traffic(context, concurrency), engine_defaults(device), **fields)


def test_a_70b_in_16_bit_takes_four_cards_of_80_gb_where_room_for_kv_is_wanted() -> None:
    made = work_out("Llama-3.1-70B", "H100", concurrency=32)
    assert made.shape.weight_bytes == pytest.approx(141e9, rel=0.001)
    by_tp = {split.tp: split for split in made.splits}
    assert by_tp[1].memory.kv_room < 0
    assert 0 < by_tp[2].memory.kv_room < 5 * GIB
    assert by_tp[2].requests == 3
    assert by_tp[4].requests >= 32
    assert made.fewest is not None
    assert made.fewest_for_weights is not None
    assert (made.fewest.tp, made.fewest_for_weights.tp, made.tp) == (4, 2, 4)
    assert made.fits


def test_what_was_asked_is_answered_even_where_it_does_not_fit() -> None:
    made = work_out("Llama-3.1-70B", "H100", concurrency=64, tp=4)
    assert not made.fits
    assert made.weights_fit
    assert made.tp == 4
    assert made.free < 0
    assert made.fewest is not None
    assert made.fewest.tp == 8


def test_every_way_to_fit_does_fit() -> None:
    made = work_out("Llama-3.1-70B", "H100", concurrency=64, tp=4)
    model = published_model("Llama-3.1-70B")
    ways = ways_to_fit(made, {word: model.shape(weight_format(word)) for word in ("fp8", "int4")})
    assert ways == ["--tp 8", f"--concurrency {made.requests}", "--kv-dtype fp8", "--dtype fp8"]
    for way in ways:
        option, value = way.split()
        again: dict[str, Any] = {"tp": 4, "concurrency": 64}
        shape = made.shape
        if option == "--dtype":
            shape = model.shape(weight_format(value))
        elif option == "--kv-dtype":
            again["kv"] = FP8
        else:
            again[option[2:]] = int(value)
        traffic = Traffic(8192, again.pop("concurrency"))
        assert plan(shape, made.gpu, traffic, made.settings, **again).fits


def test_nothing_fits_a_model_that_is_far_too_large() -> None:
    made = work_out("Llama-3.1-405B", "L4", tp=1)
    assert made.fewest is None
    assert made.requests == 0
    assert made.cost is None
    assert not made.weights_fit
    assert work_out("Llama-3.1-405B", "L4", price=1.0).cost is None


def test_without_a_tp_the_fewest_gpus_that_do() -> None:
    assert work_out("Llama-3.1-8B", "H100").tp == 1
    assert work_out("Llama-3.1-70B", "H100").tp == 2
    assert work_out("DeepSeek-V3", "H200").tp == 8


@pytest.mark.parametrize(
    ("traffic", "param", "hint"),
    [
        (Traffic(200_000), "context", "--context 131072"),
        (Traffic(1100), "prompt", "--context 1200"),
    ],
)
def test_what_cannot_be_is_refused(traffic: Traffic, param: str, hint: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        plan(published("Llama-3.1-8B"), gpu_named("H100"), traffic, EngineSettings())
    assert (caught.value.param, caught.value.hint) == (param, hint)


def test_the_price_of_a_million_tokens_by_hand() -> None:
    made = work_out("Llama-3.1-8B", "H100", concurrency=8, price=3.6)
    line = Roofline(made.shape, made.gpu)
    cost, speed = made.cost, made.speed
    assert cost is not None
    assert len(speed.prefill_rows) == 8
    step = line.decode_step(8, 1100).seconds
    request = speed.prefill.seconds / 8 + 200 * step / 8
    assert cost.request_s == pytest.approx(request)
    assert cost.per_million_output == pytest.approx(1e6 * 0.001 * request / 200)
    assert cost.per_million_all == pytest.approx(1e6 * 0.001 * request / 1200)
    assert cost.requests_per_s == pytest.approx(1 / request)


def test_twice_the_price_is_twice_the_cost_and_more_together_is_cheaper() -> None:
    def cost(price: float, concurrency: int) -> float:
        found = work_out("Llama-3.1-8B", "H100", concurrency=concurrency, price=price).cost
        assert found is not None
        return found.per_million_all

    assert cost(4, 8) == pytest.approx(2 * cost(2, 8))
    assert cost(2, 32) < cost(2, 8) < cost(2, 1)


@pytest.mark.parametrize(
    ("model", "gpu", "tp", "concurrency", "words"),
    [
        ("Qwen3-32B-FP8", "A100", 1, 1, "no FP8 units"),
        ("Llama-3.1-70B", "H100", 16, 1, "span nodes"),
        ("Llama-3.1-8B", "L4", 1, 300, "--max-num-seqs 300"),
        ("Qwen3-30B-A3B", "H100", 8, 1, "4 KV heads on 8 GPUs"),
        ("DeepSeek-V3", "H200", 8, 1, "whole on each of the 8 GPUs"),
    ],
)
def test_what_one_should_know_is_said(model: str, gpu: str, tp: int, concurrency: int, words: str) -> None:
    made = work_out(model, gpu, 4096, concurrency, tp=tp)
    assert any(words in note for note in made.notes)


def test_settings_change_only_where_they_are_given() -> None:
    settings_ = with_settings(EngineSettings(), max_num_seqs=7, max_num_batched_tokens=None)
    assert settings_ == replace(EngineSettings(), max_num_seqs=7)


def test_each_figure_says_how_it_came_about() -> None:
    made = work_out("Llama-3.1-70B", "H100", concurrency=32, tp=4, price=2.5)
    found = {entry.name: entry for entry in explain(made)}
    assert found["KV per token"].lines[0] == ("80 layers × 2 (key, value) × 8 KV heads × 128 × 2 B (bf16) = 320 KiB")
    assert found["KV per token"].lines[1] == "one of 4 GPUs holds 2 of the 8 heads = 80 KiB"
    assert "feed-forward: 56.4 B × 2 B (bf16) ÷ 4 = 26.2 GiB" in found["weights of one GPU"].lines
    assert "79.2 GiB × 0.92 (gpu_memory_utilization) = 72.8 GiB" in found["room for KV"].lines
    assert "160 all-reduces" in found["decode, 32 requests"].lines[-1]
    assert found["cost"].result == "0.27 per million tokens"


@given(shapes, gpus, st.integers(2, 4096), st.integers(1, 300), st.sampled_from([None, 2.5]))
@settings(deadline=None)
def test_any_plan_adds_up(shape: ModelShape, gpu: Gpu, context: int, concurrency: int, price: float | None) -> None:
    traffic = Traffic(context, concurrency, context - 1, 1)
    made = plan(shape, gpu, traffic, engine_defaults(gpu), price=price)
    memory = made.memory
    whole = memory.weights + memory.activations + memory.overhead + made.kv_needed + made.free
    assert whole == pytest.approx(memory.budget)
    assert made.fits == (made.free >= 0 and made.weights_fit) or made.requests == 0
    assert (made.cost is None) == (price is None or made.requests == 0)
    assert made.speed.alone.seconds <= made.speed.together.seconds
    for entry in explain(made):
        assert entry.lines
        assert entry.result
