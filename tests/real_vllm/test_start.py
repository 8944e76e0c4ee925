"""Engines that cannot start, and what they say."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from control_plane.contracts.errors import SettingsError
from tests.real_vllm.conftest import real_spec
from tests.real_vllm.test_death import leftovers
from workers import weights
from workers.engine.base import EngineDead
from workers.engine.vllm_engine import VllmEngine

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.forks]


async def failure_of(folder: Path, expected: type[Exception], **fields: Any) -> Any:
    engine = VllmEngine(real_spec(folder, **fields))
    with pytest.raises(expected) as caught:
        await engine.start()
    assert engine.pids() == ()
    assert not leftovers()
    return caught.value


async def test_too_little_kv_memory_is_said_with_the_way_out(tmp_path: Path) -> None:
    error = await failure_of(tmp_path, EngineDead, kv_bytes=4 << 20)
    assert "To serve at least one request" in str(error)
    assert "raise the pool's kv_memory, or lower its max_context" in str(error)


async def test_an_unknown_engine_argument_names_the_nearest(tmp_path: Path) -> None:
    error = await failure_of(tmp_path, SettingsError, engine_args={"max_num_seqz": 4})
    assert (error.param, error.hint) == ("engine_args.max_num_seqz", "did you mean max_num_seqs?")


@pytest.mark.parametrize("args", [{"max_num_seqs": -4}, {"scheduling_policy": "random"}, {"max_num_seqs": "many"}])
async def test_a_wrong_value_is_said_in_one_line(tmp_path: Path, args: dict[str, Any]) -> None:
    error = await failure_of(tmp_path, SettingsError, engine_args=args)
    assert "vLLM refuses the pool's settings" in str(error)
    assert "\n" not in str(error)


async def test_a_context_that_the_model_has_not_is_refused(tmp_path: Path) -> None:
    error = await failure_of(tmp_path, SettingsError, max_context=1_000_000)
    assert "max_model_len" in str(error)


async def test_gpus_on_the_cpu_build_are_refused(tmp_path: Path) -> None:
    error = await failure_of(tmp_path, SettingsError, gpus=[0])
    assert "CPU build" in str(error)


async def test_a_model_that_vllm_does_not_know_is_refused(tmp_path: Path) -> None:
    spec = real_spec(tmp_path)
    good = weights.resolve(spec.source, cache_dir=Path(spec.cache_dir)).folder
    folder = tmp_path / "model"
    shutil.copytree(good, folder, copy_function=lambda source, target: Path(target).symlink_to(source))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").unlink()
    (folder / "config.json").write_text(json.dumps({**config, "architectures": ["NoSuchModel"]}))
    error = await failure_of(tmp_path, SettingsError, source=str(folder))
    assert "NoSuchModel" in str(error)


async def test_weights_that_cannot_be_read_are_said(tmp_path: Path) -> None:
    spec = real_spec(tmp_path)
    good = weights.resolve(spec.source, cache_dir=Path(spec.cache_dir)).folder
    folder = tmp_path / "model"
    folder.mkdir()
    for path in good.iterdir():
        if path.suffix == ".json":
            shutil.copy(path, folder)
    (folder / "model.safetensors").write_bytes((good / "model.safetensors").read_bytes()[:100_000])
    error = await failure_of(tmp_path, EngineDead, source=str(folder))
    assert "Safetensor" in str(error)
