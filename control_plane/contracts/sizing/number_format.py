"""How numbers are stored, and what a tensor core multiplies them as."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.sizing.nearest import nearest


class Math(StrEnum):
    """The rate of a GPU that a multiplication runs at."""

    BF16 = "bf16"  # 16-bit floats of either kind; also whatever is unpacked to them first (int4, mxfp4, nf4)
    FP8 = "fp8"
    INT8 = "int8"


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """``bits`` are those stored for one weight, its share of scales and zero points included."""

    name: str
    bits: float
    math: Math = Math.BF16

    @property
    def bytes(self) -> float:
        return self.bits / 8


BF16 = NumberFormat("bf16", 16)
FP16 = NumberFormat("fp16", 16)
FP32 = NumberFormat("fp32", 32)
FP8 = NumberFormat("fp8", 8, Math.FP8)
INT8 = NumberFormat("int8", 8, Math.INT8)
# A 32-bit scale for each 128 × 128 block (DeepSeek-V3, Qwen3-FP8: weight_block_size).
FP8_BLOCK = NumberFormat("fp8 (128×128 blocks)", 8 + 32 / (128 * 128), Math.FP8)
# Group of 128: a 16-bit scale and a 4-bit zero point (AWQ, arXiv 2306.00978; GPTQ, arXiv 2210.17323).
INT4 = NumberFormat("int4", 4 + (16 + 4) / 128)
# Blocks of 32 with a shared 8-bit exponent (OCP Microscaling Formats v1.0).
MXFP4 = NumberFormat("mxfp4", 4 + 8 / 32)
# Blocks of 16 with an FP8 scale (NVIDIA NVFP4).
NVFP4 = NumberFormat("nvfp4", 4 + 8 / 16)
# Blocks of 64 with a 32-bit absmax, itself 8 bit in blocks of 256 when quantised twice (QLoRA, arXiv 2305.14314).
NF4 = NumberFormat("nf4", 4 + 32 / 64)
NF4_TWICE = NumberFormat("nf4 (double)", 4 + 8 / 64 + 32 / (64 * 256))

WEIGHT_FORMATS = {
    "bf16": BF16,
    "fp16": FP16,
    "fp32": FP32,
    "fp8": FP8,
    "int8": INT8,
    "int4": INT4,
    "mxfp4": MXFP4,
    "nvfp4": NVFP4,
    "nf4": NF4,
}
"""What ``--dtype`` knows."""

KV_FORMATS = {"bf16": BF16, "fp16": FP16, "fp32": FP32, "fp8": FP8}
"""What ``--kv-dtype`` knows."""

_ALIASES = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "float": "fp32",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
    "float8_e4m3fn": "fp8",
    "w8a8": "int8",
    "awq": "int4",
    "gptq": "int4",
    "w4a16": "int4",
    "nvidia-fp4": "nvfp4",
    "bnb": "nf4",
}


def weight_format(name: str) -> NumberFormat:
    """The format of that name. Raises InvalidRequest (``dtype``) with the names that are known."""
    return _format(name, WEIGHT_FORMATS, "dtype")


def kv_format(name: str) -> NumberFormat:
    """The format of that name. Raises InvalidRequest (``kv_dtype``) with the names that are known."""
    return _format(name, KV_FORMATS, "kv_dtype")


def _format(name: str, known: dict[str, NumberFormat], param: str) -> NumberFormat:
    word = name.strip().lower().removeprefix("torch.")
    word = _ALIASES.get(word, word)
    if word in known:
        return known[word]
    option = "--" + param.replace("_", "-")
    raise InvalidRequest(
        f"{option}: {name!r} is not a number format here; known are {', '.join(known)}",
        param=param,
        hint=f"{option} {nearest(word, known, 1)[0]}",
    )
