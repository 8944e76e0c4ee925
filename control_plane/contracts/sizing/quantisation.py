"""``quantization_config`` of a checkpoint, as the number formats of its weights."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.sizing.config_fields import Config
from control_plane.contracts.sizing.number_format import (
    BF16,
    FP8,
    FP8_BLOCK,
    FP16,
    INT8,
    MXFP4,
    NF4,
    NF4_TWICE,
    NVFP4,
    NumberFormat,
)

_LAYER = re.compile(r"\.layers?\.(\d+)\.|\.h\.(\d+)\.")


@dataclass(frozen=True, slots=True)
class Quantisation:
    """``linear`` is the format of the projections, ``experts`` of the routed ones; None leaves the base format.

    Embeddings, norms and routers are never quantised by the methods read here.
    """

    linear: NumberFormat | None = None
    experts: NumberFormat | None = None
    attention: NumberFormat | None = None
    head: NumberFormat | None = None
    notes: tuple[str, ...] = ()


def uniform(number_format: NumberFormat) -> Quantisation:
    """Every projection in one format; the output head stays as it was, as vLLM's own quantisation does."""
    return Quantisation(number_format, number_format, number_format)


def base_format(config: Config, text: Config) -> tuple[NumberFormat, tuple[str, ...]]:
    """The format of what is not quantised; a 32-bit checkpoint is served in 16 bits, as by vLLM's ``--dtype auto``."""
    named = text.get("dtype") or text.get("torch_dtype") or config.get("dtype") or config.get("torch_dtype")
    word = str(named or "bfloat16").removeprefix("torch.").lower()
    if word in ("float16", "half"):
        return FP16, ()
    if word == "float32":
        return BF16, ("the checkpoint is 32 bit; vLLM serves it in 16 bits unless told otherwise (--dtype fp32)",)
    return BF16, ()


def quantisation_of(config: Config, layers: int) -> Quantisation:
    """Raises InvalidRequest for a method that is not known here: its bytes would be a guess."""
    section = config.get("quantization_config") or config.get("compression_config")
    if not isinstance(section, Mapping) or not section:
        return Quantisation()
    method = str(section.get("quant_method", "")).lower().replace("_", "-")
    stored = _stored(method, section)
    skipped = section.get("modules_to_not_convert") or section.get("ignore") or section.get("exclude_modules") or []
    names = [str(name) for name in skipped] if isinstance(skipped, list) else []
    attention, some = _skipped(names, r"self_attn|attention|\.attn", layers)
    experts_only = method == "mxfp4"
    notes = ("some layers of this checkpoint are not quantised; all are counted as if they were",) if some else ()
    return Quantisation(
        linear=None if experts_only else stored,
        experts=stored,
        attention=None if attention or experts_only else stored,
        head=None,
        notes=notes,
    )


def _skipped(names: list[str], pattern: str, layers: int) -> tuple[bool, bool]:
    """Whether modules of that kind are left alone in every layer, and whether only in some."""
    hits = [name for name in names if re.search(pattern, name) and "norm" not in name]
    numbered = {match[1] or match[2] for name in hits if (match := _LAYER.search(name))}
    everywhere = any(not _LAYER.search(name) for name in hits) or len(numbered) >= layers > 0
    return everywhere, bool(numbered) and not everywhere


def _stored(method: str, section: Mapping[str, Any]) -> NumberFormat:
    match method:
        case "fp8" | "fbgemm-fp8":
            return FP8_BLOCK if section.get("weight_block_size") else FP8
        case "mxfp4":
            return MXFP4
        case "awq" | "gptq" | "auto-round" | "autoround" | "auto-gptq" | "auto-awq":
            bits = _bits(section.get("bits", section.get("w_bit", 4)))
            group = _group(section.get("group_size", section.get("q_group_size", 128)))
            zero_points = bool(section.get("zero_point", not section.get("sym", False)))
            return _grouped(f"int{bits} ({method})", bits, group, zero_points)
        case "bitsandbytes":
            if section.get("load_in_8bit"):
                return NumberFormat("int8 (bitsandbytes)", 8)
            return NF4_TWICE if section.get("bnb_4bit_use_double_quant") else NF4
        case "compressed-tensors":
            return _compressed(section)
        case "modelopt" | "modelopt-fp4" | "nvfp4":
            algorithm = str(section.get("quant_algo", "NVFP4" if "fp4" in method else "FP8")).upper()
            return NVFP4 if "FP4" in algorithm else FP8
    raise InvalidRequest(
        f"config.json: quantization method {method or '?'!r:.40} is not known here",
        param="quantization_config.quant_method",
        hint="--dtype int4",
    )


def _compressed(section: Mapping[str, Any]) -> NumberFormat:
    groups = section.get("config_groups")
    entries = list(groups.values()) if isinstance(groups, Mapping) else []
    first = entries[0] if entries and isinstance(entries[0], Mapping) else {}
    weights = first.get("weights")
    if not isinstance(weights, Mapping):
        raise InvalidRequest("config.json: compressed-tensors without weights", param="quantization_config")
    bits = _bits(weights.get("num_bits", 8))
    both = first.get("input_activations") is not None
    if weights.get("type") == "float":
        if bits == 4:
            return MXFP4 if weights.get("group_size") == 32 else NVFP4
        return FP8 if both else NumberFormat("fp8 (weights only)", 8)
    if bits == 8 and both:
        return INT8
    group = _group(weights.get("group_size") or -1)
    return _grouped(f"int{bits} (compressed-tensors)", bits, group, not weights.get("symmetric", True))


def _grouped(name: str, bits: int, group: int, zero_points: bool) -> NumberFormat:
    """A 16-bit scale for each group, and a zero point where the method has them; group −1 is a whole column."""
    extra = (16 + (bits if zero_points else 0)) / group if group > 0 else 0.0
    return NumberFormat(name, bits + extra)


def _bits(value: Any) -> int:
    if value in (2, 3, 4, 5, 6, 8):
        return int(value)
    raise InvalidRequest(f"config.json: {value!r:.20} bits a weight", param="quantization_config.bits")


def _group(value: Any) -> int:
    if isinstance(value, int) and (value == -1 or 1 <= value <= 1 << 20):
        return value
    raise InvalidRequest(f"config.json: group size {value!r:.20}", param="quantization_config.group_size")
