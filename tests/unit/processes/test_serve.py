"""What the control plane's process does beside the platform."""

from __future__ import annotations

import errno
import logging
from pathlib import Path

import pytest

from control_plane import telemetry
from control_plane.processes import serve, settings_file
from control_plane.processes.home_secret import HomeSecret
from control_plane.settings import Home, Settings
from control_plane.store.secret import digest


def test_the_file_of_the_homes_key_follows_its_rotation_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "api.key"
    path.write_text("sk-old\n")
    HomeSecret(path).follow(digest("sk-another"), "sk-new")
    assert path.read_text() == "sk-old\n"
    HomeSecret(path).follow(digest("sk-old"), "sk-new")
    assert path.read_text() == "sk-new\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_gone_stops_no_rotation(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        HomeSecret(tmp_path / "api.key").follow(digest("sk-old"), "sk-SENTINEL1")
    assert "could not be written" in caplog.text
    assert "SENTINEL1" not in caplog.text
    assert HomeSecret(tmp_path / "api.key").read() == ""


def test_a_full_disk_is_told_by_its_name_and_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(serve, "_control_plane", full)
    monkeypatch.setattr(telemetry, "setup_logging", lambda *_, **__: None)
    home = Home(tmp_path / "home")
    assert serve.serve(home, Settings(), None, {}) != 0
    told = capsys.readouterr().err
    assert f"the disk of {home.root} is full" in told
    assert "make room on it" in told


def test_settings_that_cannot_be_written_down_leave_nothing_behind(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.create()
    home.settings.mkdir()  # what a file cannot replace
    with pytest.raises(OSError, match="directory"):
        settings_file.write(home, {})
    assert list(home.settings.parent.glob(".settings.json.*")) == []
