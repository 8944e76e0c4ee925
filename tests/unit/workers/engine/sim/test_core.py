from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from workers.engine.sim import core

ROOT = Path(__file__).parents[5]
COMPILE = ROOT / ".ci/compile_core.py"


def played(**environment: str) -> tuple[str, list[str]]:
    """The form, and what it did."""
    env = {name: value for name, value in os.environ.items() if name != "INFERDECK_INTERPRETED"}
    env |= {"PYTHONHASHSEED": "0", **environment}  # sets are printed in their order
    module = "tests.unit.workers.engine.sim.both_forms"
    ran = subprocess.run([sys.executable, "-m", module], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    form, *lines = ran.stdout.splitlines()
    return form, lines


def test_compiled_and_as_python_every_step_is_the_same() -> None:
    if not core.folder().is_dir() and (problem := runpy.run_path(str(COMPILE))["obstacle"]()):
        pytest.skip(f"the core cannot be compiled here: {problem}")
    compiled, first = played()
    python, second = played(INFERDECK_INTERPRETED="1")
    assert (compiled, python) == ("compiled", "Python"), "make install compiles it"
    assert len(first) > 10_000
    differing = [pair for pair in zip(first, second, strict=True) if pair[0] != pair[1]]
    assert not differing, differing[0]


def test_what_was_compiled_from_other_sources_is_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for source in core.HERE.glob("*.py"):
        shutil.copy(source, tmp_path)
    monkeypatch.setattr(core, "HERE", tmp_path)
    before = core.folder()
    for name in ("scheduler", "virtual", "native"):
        file = tmp_path / f"{name}.py"
        told = file.read_text()
        file.write_text(told + "\n# changed\n")
        assert core.folder() != before, name
        file.write_text(told)
    assert core.folder() == before


def test_without_a_compiler_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler -O2")
    assert runpy.run_path(str(COMPILE))["obstacle"]() == "there is no C compiler (no-such-compiler)"


def test_only_what_the_simulator_has_is_compiled() -> None:
    assert all((core.HERE / f"{name}.py").is_file() for name in core.MODULES)
