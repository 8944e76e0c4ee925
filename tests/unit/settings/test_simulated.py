from __future__ import annotations

from pathlib import Path

import pytest

from control_plane.contracts.errors import SettingsError
from control_plane.settings import Home, Settings, load_settings, load_with_sources, simulated, sources_after


def read(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "deck.toml"
    path.write_text(text)
    return load_settings(path, Home.resolve(tmp_path))


def test_a_simulated_pool_needs_no_more_than_its_engine(tmp_path: Path) -> None:
    (pool,) = read(tmp_path, '[[pool]]\nengine = "sim"').pools
    assert pool.engine_args == {"profile": "h100-llama-3.1-8b"}
    assert (pool.model, pool.source) == ("h100-llama-3.1-8b", "sim:h100-llama-3.1-8b")
    assert (pool.name, pool.kv_memory, pool.max_context, pool.gpus) == ("h100-llama-3-1-8b", 0, 0, ())


def test_what_is_said_counts(tmp_path: Path) -> None:
    text = """
    [[pool]]
    name = "big"
    model = "llama"
    engine = "sim"
    replicas = 3
    tensor_parallel = 4
    kv_memory = "8GiB"
    [pool.engine_args]
    gpu = "H200"
    model_shape = "Llama-3.1-70B"
    speed = 2.0
    """
    (pool,) = read(tmp_path, text).pools
    assert (pool.name, pool.model, pool.replicas, pool.tensor_parallel, pool.kv_memory) == (
        "big",
        "llama",
        3,
        4,
        8 << 30,
    )
    assert pool.source == "sim:h200-llama-3.1-70b"
    assert pool.engine_args == {"gpu": "H200", "model_shape": "Llama-3.1-70B", "speed": 2.0}


def test_a_profiles_file_counts_from_the_settings_folder(tmp_path: Path) -> None:
    (pool,) = read(tmp_path, "[[pool]]\nengine = 'sim'\nengine_args = {profile = 'measured/Cpu.toml'}").pools
    assert pool.engine_args["profile"] == str(tmp_path / "measured" / "Cpu.toml")
    assert pool.model == "cpu"


def test_without_a_file_the_platform_is_one_simulated_pool() -> None:
    (pool,) = simulated(Settings()).pools
    assert (pool.engine, pool.model, pool.replicas) == ("sim", "h100-llama-3.1-8b", 2)
    (pool,) = simulated(Settings(), "h200-qwen3-32b-tp2").pools
    assert pool.engine_args == {"profile": "h200-qwen3-32b-tp2"}


def test_pools_of_a_file_are_simulated_as_they_are(tmp_path: Path) -> None:
    text = """
    [[pool]]
    name = "small"
    engine_args = {max_num_seqs = 8, enforce_eager = true}
    [[pool]]
    name = "test"
    model = "t"
    engine = "scripted"
    """
    settings = simulated(read(tmp_path, text))
    assert set(settings.written) == {"test"}, "what a simulated one runs with is not in the file"
    small, test = settings.pools
    assert (small.engine, small.model, small.source) == ("sim", "smollm2-135m", "sim:h100-smollm2-135m")
    assert small.engine_args == {
        "profile": "h100-smollm2-135m",
        "max_num_seqs": 8,
        "max_num_batched_tokens": 512,
    }
    assert test.engine == "scripted"


def test_a_model_that_nobody_knows_needs_a_profile(tmp_path: Path) -> None:
    settings = read(tmp_path, "[[pool]]\nsource = 'someone/secret-7b'\ngpus = [0, 1]")
    with pytest.raises(SettingsError, match="secret-7b"):
        simulated(settings)
    (pool,) = simulated(settings, "l4-llama-3.1-8b").pools
    assert (pool.model, pool.gpus, pool.engine_args) == ("secret-7b", (), {"profile": "l4-llama-3.1-8b"})


def test_a_profile_that_no_pool_would_have_is_refused(tmp_path: Path) -> None:
    settings = read(tmp_path, '[[pool]]\nengine = "sim"')
    assert simulated(settings) == settings
    with pytest.raises(SettingsError, match="no pool of"):
        simulated(settings, "l4-llama-3.1-8b")


def test_what_an_option_chose_is_told_as_its_choice_and_all_else_as_before(tmp_path: Path) -> None:
    path = tmp_path / "deck.toml"
    path.write_text('[gateway]\nport = 7\n[[pool]]\nname = "p"\nreplicas = 3\nsource = "builtin:smollm2-135m"\n')
    settings, sources = load_with_sources(path, Home.resolve(tmp_path))
    after = sources_after(simulated(settings, "h100-llama-3.1-8b"), sources, "--engine sim")
    told = {source.key: (source.value, source.source) for source in after}
    assert told["gateway.port"] == (7, f"{path}:2")
    assert told["pool[0].replicas"] == (3, f"{path}:5")
    assert told["pool[0].engine"] == ("sim", "--engine sim")
    assert {source.key for source in sources} == set(told)
    assert sources_after(settings, sources, "--engine sim") == sources
