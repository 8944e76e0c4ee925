"""A worker that computes one long step is busy, not dead: H01 on real vLLM."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from control_plane.contracts.fleet import WorkerPhase
from control_plane.fleet.health import INTERVAL_S, MISSES
from tests.integration.platform.rig import Platform, until

PROMPTS = int(os.environ.get("INFERDECK_TEST_PROMPTS", "1"))
"""So many prompts are computed in one step: with 6 of them it takes more than a minute on two cores."""

SENTENCE = "The quick brown fox jumps over the lazy dog. "
"""Ten tokens of the model."""

TOKENS = 5000

LONG = f"""
[gateway]
port = 0
[api]
port = 0
[[pool]]
name = "tiny"
model = "tiny-model"
replicas = 1
max_context = 8192
kv_memory = "3GiB"
[pool.engine_args]
max_num_seqs = 16
max_num_batched_tokens = {TOKENS * PROMPTS}
"""


@pytest.mark.timeout(900)
def test_a_step_longer_than_all_probes_loses_no_worker_and_no_call(tmp_path: Path) -> None:
    """Every sign that a worker may miss falls into one step; its callers wait, and are answered."""
    platform = Platform(tmp_path, LONG, patience_s=600.0)
    platform.up()
    try:
        [before] = platform.snapshot().workers
        asks = [f"{number}. " + SENTENCE * (TOKENS // 10) for number in range(PROMPTS)]
        streams = [platform.stream(ask, max_tokens=2, ignore_eos=True) for ask in asks]
        phases, restarts = set[WorkerPhase](), set[int]()

        def over() -> bool:
            [worker] = platform.snapshot().workers
            phases.add(worker.phase)
            restarts.add(worker.restarts)
            return all(stream.done.is_set() for stream in streams)

        until(over, "the end of the prompts", patience_s=600)
        assert all(stream.wait(60).complete for stream in streams), [stream.error_code for stream in streams]
        [after] = platform.snapshot().workers
        assert (phases, restarts) == ({WorkerPhase.READY}, {before.restarts})
        assert after.info is not None
        assert before.info is not None
        assert after.info.instance_id == before.info.instance_id
        count = platform.read("trace", "worker/tiny-1")["step"]
        told = platform.run("top", "worker/tiny-1", "--steps", "--from", "1", "-n", str(count), "-o", "json").stdout
        longest = max(json.loads(line)["execute_s"] for line in told.splitlines())
        print(f"{PROMPTS} prompts: the longest step took {longest:.0f} s")
        platform.note()
        platform.run("down")
        platform.nothing_left()
    finally:
        platform.end()
    if longest <= MISSES * INTERVAL_S:
        pytest.skip(
            f"a step of {longest:.1f} s is shorter than what a worker may miss: this machine is too fast for it"
        )
