from __future__ import annotations

from pathlib import Path

import pytest

from control_plane.contracts.errors import SettingsError
from control_plane.contracts.sizing.measured import Measured, measured_toml, read_measured
from control_plane.contracts.sizing.memory import EngineSettings
from control_plane.contracts.sizing.step_cost import Residual, StepCost
from control_plane.contracts.step import StepKind
from workers.engine.sim.profile import profile_of
from workers.engine.sim.settings import SimSettings

CPU = Measured(
    name='cpu "small" \\ one',
    source="vLLM 0.32.0 on 2 cores",
    device="CPU x1",
    model="SmolLM2-135M",
    dtype="float32",
    tensor_parallel=1,
    context=2048,
    block_bytes=737_280,
    total_blocks=700,
    defaults=EngineSettings(max_num_batched_tokens=512, max_num_seqs=16, block_size=16),
    cost=StepCost(4e-3, 2e-4, ((1, 1e-3), (2, 1.5e-3)), 2e-7, prefill_free=16),
    residuals=(Residual("decode", 120, 0.0212, 0.06),),
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    file = tmp_path / "cpu.toml"
    file.write_text(measured_toml(CPU))
    assert read_measured(file) == CPU
    profile = profile_of(SimSettings(profile=str(file)))
    assert (profile.device, profile.blocks(), profile.context) == ("CPU x1", 700, 2048)
    assert profile_of(SimSettings(profile=str(file), block_size=32)).blocks() == 349
    batch = [
        ("a", StepKind.DECODE, 1, 100, 90, 10, 0, 0, False, False, (), 7),
        ("b", StepKind.PREFILL, 64, 32, 300, 0, 32, 0, True, False, (), 6),
    ]
    assert profile.timer.seconds(batch, 1) == pytest.approx(4e-3 + 48 * 2e-4 + 1e-3 + 132 * 2e-7)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("format = 1", "format = 2", "format: must be 1"),
        ("context = 2048", "", "context: a whole number"),
        ("step_s = 4.0", "step_s = -4.0", "step_s: a number of 0 or more"),
        ("[step]", "[steps]", "step: a table"),
        ('device = "CPU x1"', 'device = "\\u001b[31m"', "device: a text"),
        ("[engine]", "[engine", "not valid TOML"),
    ],
)
def test_a_wrong_file_is_told_by_field(tmp_path: Path, old: str, new: str, message: str) -> None:
    file = tmp_path / "cpu.toml"
    text = measured_toml(CPU)
    assert old in text
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(SettingsError, match=message) as caught:
        read_measured(file)
    assert caught.value.param == "profile"
