from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from control_plane.contracts.worker_spec import Announcement, WorkerSpec, start_ticks


def test_a_spec_survives_its_file_which_only_the_user_can_read(tmp_path: Path) -> None:
    spec = WorkerSpec("w1", "p", "vllm", "m", "builtin:x", "a", "l", "c", gpus=[0, 1], engine_args={"max_num_seqs": 4})
    path = tmp_path / "new" / "w1.json"
    spec.save(path)
    assert WorkerSpec.load(path) == spec
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(path.parent) == ["w1.json"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "w1.json"
    Announcement("w1", "i1", 1, 2, "loading").save(path)
    with pytest.raises(TypeError):
        WorkerSpec("w1", "p", "e", "m", "s", "a", "l", "c", engine_args={"x": object()}).save(path)
    assert Announcement.load(path).instance_id == "i1"
    assert os.listdir(tmp_path) == ["w1.json"]


def test_start_ticks_tell_processes_apart() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert start_ticks(child.pid) >= start_ticks(os.getpid()) > 0
    finally:
        child.kill()
        assert child.stdin is not None
        child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert start_ticks(child.pid) == 0, "a zombie does not count as running"
    child.wait()
    assert start_ticks(2**22 - 1) == 0
