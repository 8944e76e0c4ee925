from __future__ import annotations

from dataclasses import replace

import pytest

from control_plane.contracts.errors import SettingsError
from control_plane.contracts.sizing.catalogue import published_model
from control_plane.contracts.sizing.gpus import gpu_named
from control_plane.contracts.sizing.kv_cache import kv_layout
from control_plane.contracts.sizing.memory import engine_defaults, gpu_memory
from control_plane.contracts.sizing.roofline import TYPICAL, Row, step_time
from control_plane.contracts.step import StepKind
from workers.engine.sim import scheduled
from workers.engine.sim.profile import GPUS, MODELS, profile_names, profile_of
from workers.engine.sim.settings import SimSettings
from workers.engine.sim.setup import nap_of, scheduler_config


def row(tokens: int, context: int) -> scheduled.Row:
    return ("r", StepKind.DECODE, tokens, context, context, 0, 0, 0, False, False, (), 1)


def test_every_gpu_and_every_model_has_a_profile() -> None:
    names = profile_names()
    for gpu in GPUS:
        assert any(name.startswith(gpu.lower() + "-") for name in names)
        for model in MODELS:
            assert any(name.startswith(f"{gpu}-{model}".lower()) for name in names), (gpu, model)
    assert {"h100-llama-3.1-70b-tp2", "h100-llama-3.1-70b-tp4", "h100-llama-3.1-70b-tp8"} <= set(names)
    assert "h100-llama-3.1-70b" not in names, "141 GB of weights are not on 80 GB"


@pytest.mark.parametrize("name", profile_names())
def test_a_profile_is_what_its_name_says_and_tells_its_sources(name: str) -> None:
    profile = profile_of(SimSettings(profile=name))
    assert profile.name == name
    assert profile.device.endswith(f" x{profile.tensor_parallel}")
    assert len(profile.sources) == 5
    assert all(profile.sources)
    config = scheduler_config(SimSettings(profile=name), profile)
    assert config.total_blocks * config.block_size >= config.max_model_len


def test_its_figures_are_those_of_the_planner() -> None:
    shape, gpu = published_model("Llama-3.1-70B").shape(), gpu_named("H100")
    profile = profile_of(SimSettings(profile="h100-llama-3.1-70b-tp4"))
    room = gpu_memory(shape, gpu, 4, engine_defaults(gpu)).kv_room
    assert profile.blocks() == kv_layout(shape, None, 4, 16).blocks(room) - 1
    batch = [row(1, 500), row(1, 900), row(300, 16)]
    expected = step_time(shape, gpu, 4, [Row(1, 500), Row(1, 900), Row(300, 16)], TYPICAL).seconds
    assert profile.timer.seconds(batch, 1) == pytest.approx(expected, rel=1e-12)
    decodes = [row(1, 500), row(1, 900)]
    expected = step_time(shape, gpu, 4, [Row(1, 500), Row(1, 900)], TYPICAL).seconds
    assert profile.timer.seconds(decodes, 1) == pytest.approx(expected, rel=1e-9)


def test_a_window_is_counted_in_decode() -> None:
    shape, gpu = published_model("Gemma-3-27B").shape(), gpu_named("H100")
    profile = profile_of(SimSettings(gpu="H100", model_shape="Gemma-3-27B"))
    expected = step_time(shape, gpu, 1, [Row(1, 20_000)], TYPICAL).seconds
    assert profile.timer.seconds([row(1, 20_000)], 1) == pytest.approx(expected, rel=1e-12)


def test_weights_take_as_long_to_the_host_as_the_slot_allows_and_nobody_says_so_of_what_was_measured() -> None:
    one, four = (profile_of(SimSettings(profile=f"h100-llama-3.1-70b-tp{count}")) for count in (2, 4))
    assert one.host_copy_s is not None
    assert four.host_copy_s is not None
    assert one.host_copy_s == pytest.approx(70.55e9 / (63.0e9 * 0.7), rel=0.03)
    assert four.host_copy_s == pytest.approx(one.host_copy_s / 2, rel=0.03)
    assert not nap_of(one, 1.0).problem
    assert "was measured" in nap_of(replace(one, host_copy_s=None), 1.0).problem


def test_gpu_and_model_can_be_given_apart() -> None:
    apart = profile_of(SimSettings(gpu="h100", model_shape="llama-3.1-8b", tensor_parallel=2))
    assert apart.name == "h100-llama-3.1-8b-tp2"
    assert profile_of(SimSettings(profile="h100-llama-3.1-8b"), tensor_parallel=2).name == apart.name


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (SimSettings(profile="h101-llama"), "nearest: h100-llama-3.1-8b"),
        (SimSettings(profile="l4-llama-3.1-70b"), "does not fit on 1 × L4"),
        (SimSettings(profile="h100-llama-3.1-8b-tp3"), "tp 3 does not split"),
        (SimSettings(profile="h100-llama-3.1-8b-tp2", tensor_parallel=4), "has 2 GPUs"),
        (SimSettings(gpu="H100"), "model_shape is missing"),
        (SimSettings(gpu="H900", model_shape="llama-3.1-8b"), "no GPU 'H900'"),
        (SimSettings(profile="/no/such.toml"), "No such file"),
    ],
)
def test_what_cannot_be_is_told(settings: SimSettings, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        profile_of(settings)


def test_kv_memory_and_context_of_the_pool_count() -> None:
    settings = SimSettings(profile="h100-llama-3.1-8b")
    profile = profile_of(settings)
    config = scheduler_config(settings, profile, max_context=2048, kv_bytes=1 << 30)
    assert config.max_model_len == 2048
    assert config.total_blocks == (1 << 30) // (16 * 131_072) - 1
    small = scheduler_config(settings, profile, kv_bytes=1 << 30)
    assert small.max_model_len == small.total_blocks * 16
    with pytest.raises(SettingsError, match=r"beyond Llama-3\.1-8B"):
        scheduler_config(settings, profile, max_context=1_000_000)
