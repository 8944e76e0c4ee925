"""The next ``up`` after a control plane that died: by whose settings, and what it says of them."""

from __future__ import annotations

import json
import socket

from control_plane.contracts.worker_spec import start_ticks
from tests.integration.platform.conftest import MakePlatform
from tests.integration.platform.rig import Platform, scripted

SIMULATED = """
[gateway]
port = 0
[api]
port = 0
[[pool]]
name = "mine"
model = "smollm2-135m"
replicas = 1
"""


def _orphaned(platform: Platform, *words: str) -> dict[str, int]:
    """Its workers' pids, without a control plane."""
    platform.run("up", "--detach", "--config", str(platform.config_path), *words)
    platform.note()
    workers = platform.worker_pids()
    platform.kill(platform.state["pid"])
    return workers


def test_without_a_word_it_goes_on_with_the_file_that_was_given(make_platform: MakePlatform) -> None:
    platform = make_platform()
    workers = _orphaned(platform)
    hint = platform.run("get", "workers", code=6).stderr
    assert "inferdeck up takes them over" in hint
    ran = platform.run("up", "--detach")
    platform.note()
    assert platform.worker_pids() == workers
    assert f"worker/tiny-2, by the settings that they run with: --config {platform.config_path}" in ran.stderr
    assert "retired" not in ran.stderr
    assert platform.ask().status_code == 200
    platform.run("down")
    platform.nothing_left()


def test_without_a_word_it_goes_on_simulating(make_platform: MakePlatform) -> None:
    platform = make_platform(SIMULATED)
    workers = _orphaned(platform, "--engine", "sim", "--profile", "h100-llama-3.1-8b")
    doctor = json.loads(platform.run("doctor", "--quick", "-o", "json", code=None).stdout)
    assert {"key": "pool[0].engine", "value": "sim", "source": "--engine sim"} in doctor["settings"]
    ran = platform.run("up", "--detach")
    platform.note()
    assert platform.worker_pids() == workers
    assert f"{platform.config_path} --engine sim --profile h100-llama-3.1-8b" in ran.stderr
    platform.run("down")
    platform.nothing_left()


def test_other_settings_say_whom_they_retire(make_platform: MakePlatform) -> None:
    platform = make_platform(scripted(1))
    _orphaned(platform)
    other = platform.folder / "other.toml"
    other.write_text(scripted(1).replace('name = "tiny"', 'name = "other"'))
    ran = platform.run("up", "--detach", "--config", str(other))
    platform.note()
    assert ran.stderr.startswith("to be retired, as these settings don't want it: worker/tiny-1\n")


def test_settings_that_could_not_run_are_not_those_of_what_runs(make_platform: MakePlatform) -> None:
    platform = make_platform(scripted(1))
    workers = _orphaned(platform)
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        wrong = platform.folder / "wrong.toml"
        wrong.write_text(scripted(1).replace("[api]\nport = 0", f"[api]\nport = {holder.getsockname()[1]}"))
        platform.run("up", "--detach", "--config", str(wrong), code=1)
    platform.run("up", "--detach")
    platform.note()
    assert platform.worker_pids() == workers


def test_a_file_that_is_gone_retires_nobody(make_platform: MakePlatform) -> None:
    platform = make_platform(scripted(1))
    workers = _orphaned(platform)
    platform.config_path.unlink()
    ran = platform.run("up", "--detach", code=2)
    assert f"they were started with {platform.config_path}, which is no more" in ran.stderr
    assert "hint: inferdeck up --config FILE, or inferdeck down" in ran.stderr
    assert all(start_ticks(pid) for pid in workers.values())
