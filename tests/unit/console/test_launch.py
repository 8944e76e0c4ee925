"""Why a control plane that was just started ended."""

from __future__ import annotations

import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest

from console import launch
from console.home import Home
from console.launch import ControlPlane, StartFailed

_Usage = namedtuple("_Usage", "total used free")


@pytest.fixture
def ended(tmp_path: Path) -> ControlPlane:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    (tmp_path / "logs").mkdir()
    return ControlPlane(Home.find(tmp_path), process, {}, None)


@pytest.mark.parametrize(("free", "told"), [(0, True), (1 << 30, False)])
def test_one_that_could_not_write_down_why_had_no_room(
    ended: ControlPlane, monkeypatch: pytest.MonkeyPatch, free: int, told: bool
) -> None:
    monkeypatch.setattr(launch.shutil, "disk_usage", lambda path: _Usage(1 << 30, 0, free))
    failure = ended.failure(1)
    assert isinstance(failure, StartFailed)
    assert ("there is no room left on the disk of" in failure.message) is told


def test_what_it_wrote_goes_before_a_guess(ended: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch.shutil, "disk_usage", lambda path: _Usage(1 << 30, 0, 0))
    ended.home.log_path.write_text("error: it is too late\nhint: come earlier\n")
    assert ended.failure(1).message == "it is too late"
