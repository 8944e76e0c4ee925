"""``up --engine sim``: the whole platform without a model, and without vLLM."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.platform.rig import Platform

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
