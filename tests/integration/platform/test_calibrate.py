"""``calibrate``: from a running engine to a profile that runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from control_plane.contracts.sizing.measured import read_measured
from tests.integration.platform.rig import Platform
from workers.engine.sim.profile import profile_of
from workers.engine.sim.settings import SimSettings

CONFIG = """
[gateway]
port = 0
[api]
port = 0
[[pool]]
name = "one"
model = "tiny-model"
engine = "sim"
replicas = 1
max_context = 2048
engine_args = {profile = "a100-80gb-llama-3.1-8b", max_num_seqs = 8}
"""


def test_a_simulated_engine_is_found_out(tmp_path: Path) -> None:
    platform = Platform(tmp_path, CONFIG)
    platform.run("up", "--detach", "--config", str(platform.config_path))
    try:
        platform.note()
        platform.run("trace", "worker/one-1", "off")
        file = tmp_path / "mine.toml"
        told = platform.run("calibrate", "worker/one-1", "--file", str(file))
        assert "with calls of model tiny-model" in told.stderr
        assert "decode together" in told.stdout
        assert "off" in platform.run("trace", "worker/one-1").stdout, "as it was before"
        found = read_measured(file)
        assert "nothing real was measured" in found.source
        assert (found.device, found.defaults.max_num_seqs, found.context) == ("A100-80GB x1", 8, 2048)
        residuals = {residual.regime: residual for residual in found.residuals}
        assert residuals["decode together"].median < 0.03
        assert residuals["decode alone"].median < 0.03
        true = profile_of(SimSettings(profile="a100-80gb-llama-3.1-8b")).timer.decodes(4, 2000)
        assert profile_of(SimSettings(profile=str(file))).timer.decodes(4, 2000) == pytest.approx(true, rel=0.05)
        assert "ends in .toml" in platform.run("calibrate", "worker/one-1", "--file", "x.txt", code=2).stderr
        assert "nobody" in platform.run("calibrate", "worker/nobody", "--file", str(file), code=3).stderr
    finally:
        platform.run("down")
    platform.nothing_left()
