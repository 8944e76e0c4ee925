from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from control_plane.contracts.errors import SettingsError
from tests.scripted_worker import ROOT, scripted_spec
from workers.engine.scripted import ScriptedEngine
from workers.engines import make_engine


def test_an_engine_is_made_by_name(tmp_path: Path) -> None:
    assert isinstance(make_engine(scripted_spec(tmp_path)), ScriptedEngine)


def test_an_unknown_name_is_a_wrong_setting(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="scripted, sim, vllm") as caught:
        make_engine(scripted_spec(tmp_path, engine="nope"))
    assert caught.value.param == "engine"


def test_a_worker_imports_no_engine_that_it_does_not_run() -> None:
    program = "import sys, workers.lifecycle; print([m for m in ('vllm', 'torch', 'transformers') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
