import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from control_plane.contracts.worker_spec import WorkerSpec
from workers.engine import vllm_env


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


def prepared(**fields: Any) -> dict[str, str]:
    vllm_env.prepare_engine(WorkerSpec("w", "p", "vllm", "m", "s", "a", "l", "/cache", **fields), Path("/private"))
    return dict(os.environ)


def test_waiting_threads_sleep_and_nothing_is_reported_home() -> None:
    vllm_env.prepare_import(on_cpu=True)
    expected = {
        "OMP_WAIT_POLICY": "PASSIVE",
        "GOMP_SPINCOUNT": "0",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "TORCH_COMPILE_DISABLE": "1",
    }
    assert expected.items() <= os.environ.items()


def test_a_gpu_compiles() -> None:
    os.environ.pop("TORCH_COMPILE_DISABLE", None)
    vllm_env.prepare_import(on_cpu=False)
    assert "TORCH_COMPILE_DISABLE" not in os.environ


def test_threads_are_the_specs_and_the_rest_of_the_model_stays_offline() -> None:
    found = prepared(threads=3)
    assert (found["OMP_NUM_THREADS"], found["MKL_NUM_THREADS"]) == ("3", "3")
    assert (found["HF_HUB_OFFLINE"], found["VLLM_RPC_BASE_PATH"]) == ("1", "/private")
    assert prepared(threads=0)["OMP_NUM_THREADS"] == str(len(os.sched_getaffinity(0)))


def test_a_variable_of_the_machine_does_not_win_over_the_spec() -> None:
    os.environ["VLLM_CPU_KVCACHE_SPACE"] = "40"
    assert "VLLM_CPU_KVCACHE_SPACE" not in prepared(kv_bytes=1 << 20)


def test_gpus_are_the_only_ones_seen() -> None:
    found = prepared(gpus=[2, 3])
    assert found["CUDA_VISIBLE_DEVICES"] == "2,3"
    assert found["OMP_NUM_THREADS"] == "1"


def test_a_split_model_binds_no_threads() -> None:
    assert prepared(tensor_parallel=2)["VLLM_CPU_OMP_THREADS_BIND"] == "nobind"
    assert prepared()["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0"


def test_what_vllm_sets_for_its_children_is_taken_back() -> None:
    os.environ["LD_PRELOAD"] = "/mine.so"
    os.environ.pop("SOME_METHOD", None)
    with vllm_env.restored("LD_PRELOAD", "SOME_METHOD"):
        os.environ["LD_PRELOAD"] = "/theirs.so"
        os.environ["SOME_METHOD"] = "spawn"
    assert os.environ["LD_PRELOAD"] == "/mine.so"
    assert "SOME_METHOD" not in os.environ


def test_private_folders_of_dead_processes_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/tmp")
    script = "from workers.engine.vllm_env import make_private_folder; print(make_private_folder())"
    left = Path(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout[:-1])
    assert left.is_dir()
    own = vllm_env.make_private_folder()
    try:
        assert not left.exists()
        assert own.stat().st_mode & 0o777 == 0o700
        again = vllm_env.make_private_folder()
        assert own.is_dir()
        vllm_env.remove_private_folder(again)
    finally:
        vllm_env.remove_private_folder(own)
    assert not own.exists()
    vllm_env.remove_private_folder(own)


def test_a_long_temporary_folder_is_not_used_for_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("x" * 80)))
    folder = vllm_env.make_private_folder()
    vllm_env.remove_private_folder(folder)
    assert len(str(folder / ("u" * 36))) <= 107
