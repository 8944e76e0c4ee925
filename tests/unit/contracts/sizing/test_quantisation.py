from __future__ import annotations

from typing import Any

import pytest

from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.sizing.number_format import Math
from control_plane.contracts.sizing.quantisation import quantisation_of


def read(**section: Any) -> Any:
    return quantisation_of({"quantization_config": section}, 4)


@pytest.mark.parametrize(
    ("section", "bits", "math"),
    [
        ({"quant_method": "fp8"}, 8, Math.FP8),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 8 + 32 / 128**2, Math.FP8),
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, 4 + 20 / 128, Math.BF16),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True}, 4 + 16 / 128, Math.BF16),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1, "sym": True}, 8, Math.BF16),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, 8, Math.BF16),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 4.5, Math.BF16),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, 8, Math.FP8),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, 4.5, Math.BF16),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "int"}, "input_activations": {}}},
            },
            8,
            Math.INT8,
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int", "group_size": 128}}},
            },
            4 + 16 / 128,
            Math.BF16,
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}, "input_activations": {}}},
            },
            8,
            Math.FP8,
        ),
    ],
)
def test_bits_of_a_weight(section: dict[str, Any], bits: float, math: Math) -> None:
    found = read(**section)
    assert found.linear.bits == pytest.approx(bits)
    assert found.linear.math is math
    assert found.head is None


def test_mxfp4_is_of_the_experts_only() -> None:
    found = read(quant_method="mxfp4", modules_to_not_convert=["model.layers.*.self_attn"])
    assert found.experts.bits == 4.25
    assert found.linear is None
    assert found.attention is None


def test_modules_that_are_left_alone() -> None:
    every = [f"model.layers.{i}.self_attn.q_proj" for i in range(4)]
    assert read(quant_method="fp8", ignore=["re:.*self_attn.*"]).attention is None
    assert read(quant_method="fp8", ignore=every).attention is None
    some = read(quant_method="fp8", ignore=every[:2])
    assert some.attention is not None
    assert some.notes
    assert not read(quant_method="fp8", ignore=["model.layers.0.self_attn.q_norm", "lm_head"]).notes


def test_none_is_none() -> None:
    assert quantisation_of({}, 4).linear is None
    assert quantisation_of({"quantization_config": None}, 4).linear is None


@pytest.mark.parametrize(
    "section",
    [
        {"quant_method": "newest"},
        {"bits": 4},
        {"quant_method": "awq", "bits": 17},
        {"quant_method": "gptq", "group_size": 0},
        {"quant_method": "compressed-tensors", "config_groups": {}},
        {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": "x"}}}},
    ],
)
def test_what_would_be_a_guess_is_refused(section: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(**section)
    assert str(caught.value.param).startswith("quantization_config")
