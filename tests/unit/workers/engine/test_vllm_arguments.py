from pathlib import Path
from typing import Any

import pytest

from control_plane.contracts.errors import SettingsError
from control_plane.contracts.worker_spec import WorkerSpec
from workers.engine.vllm_arguments import engine_arguments

KNOWN = {
    "model",
    "max_num_seqs",
    "enforce_eager",
    "async_scheduling",
    "gpu_memory_utilization",
    "block_size",
    "tensor_parallel_size",
    "scheduler_cls",
}


def arguments(
    args: dict[str, Any] | None = None, *, on_cpu: bool = True, fast: bool = True, **fields: Any
) -> dict[str, Any]:
    spec = WorkerSpec("w", "p", "vllm", "m", "src", "a", "l", "c", engine_args=args or {}, **fields)
    return engine_arguments(spec, Path("/models/m"), KNOWN, on_cpu=on_cpu, fast_bfloat16=fast)


def test_the_spec_becomes_arguments() -> None:
    found = arguments(dtype="bfloat16", max_context=2048, kv_bytes=1 << 20)
    expected = {
        "model": "/models/m",
        "served_model_name": "m",
        "dtype": "bfloat16",
        "max_model_len": 2048,
        "kv_cache_memory_bytes": 1 << 20,
        "tensor_parallel_size": 1,
        "block_size": 32,
        "enforce_eager": True,
        "distributed_executor_backend": "uni",
        "scheduling_policy": "priority",
        "scheduler_cls": "workers.engine.vllm_scheduler.WorkerScheduler",
    }
    assert expected.items() <= found.items()


def test_what_is_left_open_is_left_to_vllm() -> None:
    found = arguments()
    assert not {"max_model_len", "kv_cache_memory_bytes"} & found.keys()


def test_a_split_model_has_a_process_per_rank_on_the_cpu() -> None:
    found = arguments(tensor_parallel=3)
    assert (found["tensor_parallel_size"], found["distributed_executor_backend"]) == (3, "mp")


def test_a_gpu_keeps_vllms_defaults_and_its_asynchronous_scheduler() -> None:
    found = arguments(on_cpu=False, gpus=[0])
    assert not {"block_size", "enforce_eager", "distributed_executor_backend", "async_scheduling"} & found.keys()
    assert found["scheduler_cls"].endswith(".AsyncWorkerScheduler")
    assert arguments({"async_scheduling": False}, on_cpu=False)["scheduler_cls"].endswith(".WorkerScheduler")


@pytest.mark.parametrize(
    ("dtype", "fast", "on_cpu", "expected"),
    [
        ("auto", False, True, "float32"),
        ("auto", True, True, "auto"),
        ("auto", False, False, "auto"),
        ("bfloat16", False, True, "bfloat16"),
    ],
)
def test_auto_avoids_an_emulated_dtype(dtype: str, fast: bool, on_cpu: bool, expected: str) -> None:
    assert arguments(dtype=dtype, fast=fast, on_cpu=on_cpu)["dtype"] == expected


def test_engine_args_win_over_defaults() -> None:
    found = arguments({"block_size": 64, "enforce_eager": False, "max_num_seqs": 4})
    assert (found["block_size"], found["enforce_eager"], found["max_num_seqs"]) == (64, False, 4)


def test_an_unknown_argument_names_the_nearest() -> None:
    with pytest.raises(SettingsError, match="no engine argument 'max_num_seq'") as caught:
        arguments({"max_num_seq": 4})
    assert (caught.value.param, caught.value.hint) == ("engine_args.max_num_seq", "did you mean max_num_seqs?")
    with pytest.raises(SettingsError) as caught:
        arguments({"zzzzz": 4})
    assert caught.value.hint


@pytest.mark.parametrize(
    ("name", "instead"), [("model", "source"), ("dtype", "dtype"), ("max_model_len", "max_context")]
)
def test_what_the_pool_sets_is_not_an_engine_argument(name: str, instead: str) -> None:
    with pytest.raises(SettingsError) as caught:
        arguments({name: "x"})
    assert caught.value.hint == f"set {instead} in the pool"


def test_what_inferdeck_needs_cannot_be_taken_away() -> None:
    with pytest.raises(SettingsError, match="scheduler_cls cannot be set"):
        arguments({"scheduler_cls": "mine"})
