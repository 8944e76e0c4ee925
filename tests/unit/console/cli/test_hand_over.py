"""A secret on its way: a file that only its owner reads, or stdout, and never both."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from console.cli.hand_over import secret_file
from control_plane.contracts.errors import InvalidRequest


def test_a_file_is_there_before_the_secret_and_gone_where_none_comes(tmp_path: Path) -> None:
    path = tmp_path / "a.key"
    with secret_file(path) as file:
        assert file is not None
        assert path.stat().st_mode & 0o777 == 0o600
        file.write("s3cret")
    assert path.read_text() == "s3cret\n"
    with pytest.raises(InvalidRequest, match="is there already"), secret_file(path):
        pass
    with pytest.raises(KeyError), secret_file(tmp_path / "b.key"):
        raise KeyError
    assert sorted(tmp_path.iterdir()) == [path]


def test_what_is_there_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "api.key"
    path.write_text("old\n")
    with pytest.raises(KeyError), secret_file(path, replaces=True):
        raise KeyError
    assert path.read_text() == "old\n"
    with secret_file(path, replaces=True) as file:
        assert file is not None
        file.write("new")
        assert path.read_text() == "old\n"
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new\n", 0o600)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("mode", "told"), [(0o644, True), (0o640, True), (0o600, False)])
def test_stdout_that_others_can_read_is_told(tmp_path: Path, mode: int, told: bool) -> None:
    path = tmp_path / "redirected"
    path.touch()
    path.chmod(mode)
    code = (
        "from console.cli.hand_over import hand_over; from console.cli.output import Format\n"
        "hand_over('s3cret', None, 'made', {}, Format.TABLE)"
    )
    with path.open("w") as out:
        ran = subprocess.run(
            [sys.executable, "-c", code], stdout=out, stderr=subprocess.PIPE, text=True, check=True, env={**os.environ}
        )
    assert path.read_text() == "s3cret\n"
    assert (f"others can read (mode {mode:04o})" in ran.stderr) is told
    assert "s3cret" not in ran.stderr
