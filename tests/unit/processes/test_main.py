"""What the processes of the control plane say when they cannot run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from control_plane.fleet.cause import last_words


@pytest.mark.parametrize("command", [("serve",), ("gateway", "--id", "g1")])
def test_a_store_that_is_none_is_an_error_with_a_hint(tmp_path: Path, command: tuple[str, ...]) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[gateway]\nport = 0\n[api]\nport = 0\n")
    store = tmp_path / "inferdeck.db"
    store.write_text("no database\n" * 500)
    result = subprocess.run(
        [sys.executable, "-m", "control_plane", *command, "--home", str(tmp_path), "--config", str(config)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 1
    assert f"error: the store sqlite:///{store} cannot be used: file is not a database\nhint: " in result.stderr
    assert "Traceback" not in result.stderr
    if command[0] == "gateway":
        log = tmp_path / "gateway.log"
        log.write_text(result.stderr)
        assert last_words(log).startswith("the store "), "the control plane tells this as the gateway's end"
