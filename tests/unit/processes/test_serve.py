"""What the control plane's process does beside the platform."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from control_plane.processes.home_secret import HomeSecret
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
