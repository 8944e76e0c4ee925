from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from control_plane.contracts.worker_spec import WorkerSpec
from tests.contract.engines import engine_spec
from tests.real_vllm.asker import Asker
from workers.engine import vllm_env
from workers.engine.vllm_engine import VllmEngine

# Tests that import vLLM at their head do so when they are collected: what it reads then has to be there.
vllm_env.prepare_import(on_cpu=not Path("/dev/nvidiactl").exists())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    installed = importlib.util.find_spec("vllm") is not None
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.real_vllm)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(300))
            if not installed:
                item.add_marker(pytest.mark.skip(reason="vLLM is not installed"))


def real_spec(directory: Path, worker_id: str = "real-1", **fields: Any) -> WorkerSpec:
    """A worker on the built-in model, small and quick to start."""
    spec = engine_spec("vllm", directory)
    values = {
        "worker_id": worker_id,
        "announce_path": str(directory / f"{worker_id}.json"),
        "log_path": str(directory / f"{worker_id}.log"),
        "dtype": "auto",
        "max_context": 1024,
        "kv_bytes": 256 << 20,
        "engine_args": {"max_num_seqs": 32, "max_num_batched_tokens": 512},
    }
    return dataclasses.replace(spec, **{**values, **fields})


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def asker(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Asker]:
    """One engine for all tests that leave it as they found it."""
    engine = VllmEngine(real_spec(tmp_path_factory.mktemp("real")))
    try:
        model = await engine.start()
        yield Asker(engine, model)
    finally:
        await engine.stop()
