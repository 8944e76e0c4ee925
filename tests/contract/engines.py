"""The engines that the contract suite runs against, by name."""

from __future__ import annotations

import os
from pathlib import Path

from control_plane.contracts.worker_spec import WorkerSpec
from tests.scripted_worker import scripted_spec


def engine_spec(name: str, directory: Path) -> WorkerSpec:
    """A small worker of that engine: 4 requests at once, 512 tokens of context or more, a prefix cache."""
    if name == "scripted":
        return scripted_spec(directory, delay_s=0.001, max_num_seqs=4, exit_process=False)
    if name in ("sim", "sim-async"):
        return scripted_spec(
            directory,
            engine="sim",
            model="llama-3.1-8b",
            max_context=1024,
            profile="h100-llama-3.1-8b",
            max_num_seqs=4,
            exit_process=False,
            async_scheduling=name == "sim-async",
        )
    cache = os.environ.get("INFERDECK_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "inferdeck"
    )
    return WorkerSpec(
        worker_id="contract-1",
        pool="contract",
        engine=name,
        model="smollm2-135m",
        source="builtin:smollm2-135m",
        announce_path=str(directory / "contract-1.json"),
        log_path=str(directory / "contract-1.log"),
        cache_dir=cache,
        dtype="float32",
        max_context=1024,
        kv_bytes=128 << 20,
        threads=1,
        offline=True,
        engine_args={"max_num_seqs": 4, "max_num_batched_tokens": 256},
    )
