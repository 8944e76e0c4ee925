"""A profile that was measured on a real engine, as a TOML file; the simulator's ``engine_args.profile`` takes its path.

::

    format = 1
    name = "cpu-smollm2-135m"
    source = "vLLM 0.32.0 on 2 cores of …, 2026-11-30, 412 steps"

    [engine]                    # what was measured, and its own settings
    device = "CPU x1"
    model = "SmolLM2-135M"
    dtype = "float32"
    tensor_parallel = 1
    context = 2048              # tokens
    block_size = 16             # tokens
    block_bytes = 737280
    total_blocks = 700
    max_num_seqs = 16
    max_num_batched_tokens = 512

    [step]                      # seconds; see step_cost
    step_s = 4.1e-3
    prefill_s = 1.9e-4
    context_s = 2.0e-7
    prefill_free = 0            # tokens
    decode_rows = [1, 2, 4]     # so many rows that decode
    decode_s = [1.2e-3, 2.5e-3, 4.4e-3]

    [[residual]]                # of the steps it was fitted to: |predicted ÷ measured − 1|
    regime = "decode together"
    steps = 120
    median = 0.021
    p90 = 0.06
    ratios = [0.96, 0.99, 1.0, 1.02, 1.09]    # measured ÷ predicted, equally likely: how steps of this kind vary
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from control_plane.contracts.errors import SettingsError
from control_plane.contracts.sizing.memory import EngineSettings
from control_plane.contracts.sizing.step_cost import Residual, StepCost
from control_plane.contracts.toml_text import TomlWrong, read_toml

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Measured:
    name: str
    source: str
    device: str
    model: str
    dtype: str
    tensor_parallel: int
    context: int
    block_bytes: int
    total_blocks: int
    defaults: EngineSettings
    cost: StepCost
    residuals: tuple[Residual, ...] = ()


def read_measured(path: Path) -> Measured:
    """Raises SettingsError that names the file and the field."""
    try:
        values, _ = read_toml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a UTF-8 text"
        raise SettingsError(f"profile {path}: {reason}", param="profile") from None
    except TomlWrong as error:
        raise SettingsError(f"profile {path}: not valid TOML: {error}", param="profile") from None
    return _Reader(path).measured(values)


class _Reader:
    def __init__(self, path: Path) -> None:
        self._path = path

    def measured(self, values: Mapping[str, Any]) -> Measured:
        if values.get("format") != FORMAT:
            raise self._wrong("format", f"must be {FORMAT}, not {values.get('format')!r}")
        engine, step = self._table(values, "engine"), self._table(values, "step")
        return Measured(
            name=self._text(values, "name"),
            source=self._text(values, "source"),
            device=self._text(engine, "device"),
            model=self._text(engine, "model"),
            dtype=self._text(engine, "dtype"),
            tensor_parallel=self._count(engine, "tensor_parallel"),
            context=self._count(engine, "context"),
            block_bytes=self._count(engine, "block_bytes"),
            total_blocks=self._count(engine, "total_blocks"),
            defaults=EngineSettings(
                max_num_batched_tokens=self._count(engine, "max_num_batched_tokens"),
                max_num_seqs=self._count(engine, "max_num_seqs"),
                block_size=self._count(engine, "block_size"),
            ),
            cost=StepCost(
                step_s=self._seconds(step, "step_s"),
                prefill_s=self._seconds(step, "prefill_s"),
                decode=self._decode(step),
                context_s=self._seconds(step, "context_s"),
                prefill_free=round(self._seconds(step, "prefill_free")),
            ),
            residuals=tuple(self._residual(each) for each in values.get("residual", ())),
        )

    def _residual(self, values: Mapping[str, Any]) -> Residual:
        return Residual(
            self._text(values, "regime"),
            self._count(values, "steps"),
            self._seconds(values, "median"),
            self._seconds(values, "p90"),
            tuple(sorted(self._numbers(values, "ratios"))) if "ratios" in values else (),
        )

    def _decode(self, step: Mapping[str, Any]) -> tuple[tuple[int, float], ...]:
        rows, seconds = self._numbers(step, "decode_rows"), self._numbers(step, "decode_s")
        if len(rows) != len(seconds) or not rows or list(rows) != sorted({max(1, round(each)) for each in rows}):
            raise self._wrong("decode_rows", "whole numbers from 1, ascending, are needed, one for each of decode_s")
        return tuple((round(each), cost) for each, cost in zip(rows, seconds, strict=True))

    def _numbers(self, values: Mapping[str, Any], name: str) -> tuple[float, ...]:
        found = values.get(name)
        if not isinstance(found, list):
            raise self._wrong(name, "a list of numbers is needed")
        return tuple(self._seconds({name: each}, name) for each in found)

    def _table(self, values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        found = values.get(name)
        if not isinstance(found, dict):
            raise self._wrong(name, "a table is needed")
        return found

    def _text(self, values: Mapping[str, Any], name: str) -> str:
        found = values.get(name)
        if not isinstance(found, str) or not found.isprintable() or not found:
            raise self._wrong(name, "a text is needed")
        return found

    def _count(self, values: Mapping[str, Any], name: str) -> int:
        found = values.get(name)
        if isinstance(found, bool) or not isinstance(found, int) or found < 1:
            raise self._wrong(name, f"a whole number from 1 is needed, not {found!r:.40}")
        return found

    def _seconds(self, values: Mapping[str, Any], name: str) -> float:
        found = values.get(name)
        if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found < math.inf:
            raise self._wrong(name, f"a number of 0 or more is needed, not {found!r:.40}")
        return float(found)

    def _wrong(self, name: str, message: str) -> SettingsError:
        return SettingsError(f"profile {self._path}: {name}: {message}", param="profile")


def measured_toml(profile: Measured) -> str:
    """The file that ``read_measured`` reads."""
    cost, defaults = profile.cost, profile.defaults
    lines = [
        f"format = {FORMAT}",
        f"name = {_quoted(profile.name)}",
        f"source = {_quoted(profile.source)}",
        "",
        "[engine]",
        f"device = {_quoted(profile.device)}",
        f"model = {_quoted(profile.model)}",
        f"dtype = {_quoted(profile.dtype)}",
        f"tensor_parallel = {profile.tensor_parallel}",
        f"context = {profile.context}",
        f"block_size = {defaults.block_size}",
        f"block_bytes = {profile.block_bytes}",
        f"total_blocks = {profile.total_blocks}",
        f"max_num_seqs = {defaults.max_num_seqs}",
        f"max_num_batched_tokens = {defaults.max_num_batched_tokens}",
        "",
        "[step]  # seconds",
        *(f"{name} = {getattr(cost, name):.6e}" for name in ("step_s", "prefill_s", "context_s")),
        f"prefill_free = {cost.prefill_free}  # tokens",
        f"decode_rows = {[rows for rows, _ in cost.decode]}",
        f"decode_s = [{', '.join(f'{seconds:.6e}' for _, seconds in cost.decode)}]",
    ]
    for residual in profile.residuals:
        lines += [
            "",
            "[[residual]]  # |predicted / measured - 1|",
            f"regime = {_quoted(residual.regime)}",
            f"steps = {residual.steps}",
            f"median = {residual.median:.4f}",
            f"p90 = {residual.p90:.4f}",
        ]
        if residual.ratios:
            lines.append(f"ratios = [{', '.join(f'{ratio:.4f}' for ratio in residual.ratios)}]  # measured / predicted")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A basic TOML string; what cannot be printed is left out."""
    kept = "".join(char for char in text if char.isprintable())
    return '"' + kept.replace("\\", "\\\\").replace('"', '\\"') + '"'
