"""``up --engine sim``: the whole platform without a model, and without vLLM."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.platform.rig import Platform, until

CONFIG = """
[gateway]
port = 0
[api]
port = 0
"""

BLOCK = """
import sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("vllm", "torch", "transformers"):
            with open({log!r}, "a") as log:
                print(name, sys.argv, file=log)
            raise ImportError(f"{{name}} is blocked")

sys.meta_path.insert(0, Block())
"""


def test_a_worker_fails_on_purpose_and_the_platform_notices(tmp_path: Path) -> None:
    """Slow, healed, crashed, hung: steps, gateway and fleet say what they would if it were not on purpose."""
    config = CONFIG + '[[pool]]\nname = "one"\nmodel = "tiny-model"\nengine = "sim"\nreplicas = 1\n'
    config += "stall_timeout_s = 4\n"
    platform = Platform(tmp_path, config + 'engine_args = {profile = "a100-80gb-llama-3.1-8b"}\n')
    platform.run("up", "--detach", "--config", str(platform.config_path))
    try:
        platform.note()
        assert "has no failures" in platform.run("inject", "worker/one-1").stdout

        def step_s() -> float:
            assert platform.ask("hello", max_tokens=4).status_code == 200
            last = platform.read("trace", "worker/one-1")["step"]
            words = ("top", "worker/one-1", "--steps", "--from", str(last), "-n", "1")
            return float(json.loads(platform.run(*words, "-o", "json").stdout)["execute_s"])

        normal = step_s()
        told = platform.run("inject", "worker/one-1", "slow", "--factor", "8", "--for", "10m", "--yes").stdout
        assert "slow" in told
        assert "600 s" in told
        assert step_s() == pytest.approx(8 * normal, rel=0.2)
        assert "has no failures" in platform.run("inject", "one-1", "--heal").stdout
        assert step_s() == pytest.approx(normal, rel=0.2)

        assert "no failure 'explode'" in platform.run("inject", "one-1", "explode", code=2).stderr
        assert "nobody is here to confirm" in platform.run("inject", "one-1", "crash", code=2).stderr
        stream = platform.stream("tell", max_tokens=1900, ignore_eos=True)
        assert stream.first.wait(30)
        platform.run("inject", "one-1", "crash", "--yes")
        until(lambda: platform.snapshot().workers[0].restarts == 1, "the worker is started again")
        assert stream.wait().complete, "it went on at the worker that came back"
        assert any(request.retries == 1 for request in platform.snapshot().requests)

        stream = platform.stream("tell", max_tokens=1900, ignore_eos=True)
        assert stream.first.wait(30)
        platform.run("inject", "one-1", "stall", "--yes")
        until(lambda: platform.snapshot().workers[0].restarts == 2, "one whose engine hangs is replaced")
        assert stream.wait().complete, "it went on at the worker that came instead"
        platform.note()
        events = platform.read("events")
        assert any(event["kind"] == "worker_lost" and "its engine hangs" in event["message"] for event in events)
        kinds = [event["kind"] for event in events]
        assert kinds.index("failure_injected") < len(kinds) - 1
    finally:
        platform.run("down")
    platform.nothing_left()


def test_the_default_pool_is_simulated_and_nothing_imports_vllm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    imports = tmp_path / "imports.log"
    (blocked / "sitecustomize.py").write_text(BLOCK.format(log=str(imports)))
    monkeypatch.setenv("PYTHONPATH", str(blocked))
    platform = Platform(tmp_path, CONFIG)
    facts = platform.run("up", "--detach", "--config", str(platform.config_path), "--engine", "sim")
    try:
        platform.note()
        assert "sim:H100 x1" in facts.stdout
        answer = platform.ask("hello", model="smollm2-135m", max_tokens=12, seed=4)
        assert answer.status_code == 200
        assert answer.json()["usage"]["completion_tokens"] == 12
        (model,) = platform.read("get", "models")
        assert (model["engine"], model["source"]) == ("sim", "sim:h100-smollm2-135m")
        worker = platform.snapshot().workers[0]
        assert worker.info is not None
        assert (worker.info.engine, worker.info.device) == ("sim", "sim:H100 x1")
        described = platform.run("describe", f"worker/{worker.id}").stdout
        assert "sim 1 on sim:H100 x1" in described
    finally:
        platform.run("down")
    platform.nothing_left()
    assert not imports.exists(), imports.read_text()
