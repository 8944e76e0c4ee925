"""A platform's whole life by the command line: up, used, down, and nothing left, whoever dies in between."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from control_plane.contracts.worker_spec import start_ticks
from tests.integration.platform.conftest import MakePlatform
from tests.integration.platform.rig import scripted, until


def test_up_the_printed_call_the_same_facts_again_and_down(make_platform: MakePlatform) -> None:
    platform = make_platform()
    first = platform.run("up", "--detach", "--config", str(platform.config_path))
    platform.note()
    assert "✓ worker/tiny-1  ready" in first.stderr
    assert f"API key    in {platform.home}/api.key" in first.stdout
    key = (platform.home / "api.key").read_text().strip()
    assert key not in first.stdout + first.stderr
    call = first.stdout[first.stdout.index("curl ") :]
    answer = subprocess.run(["bash", "-c", call], capture_output=True, text=True, timeout=60, check=True)
    assert answer.stdout.rstrip().endswith("data: [DONE]")
    workers = platform.read("get", "workers")
    assert [(worker["id"], worker["phase"]) for worker in workers] == [("tiny-1", "ready"), ("tiny-2", "ready")]

    again = platform.run("up", "--detach")
    assert again.stdout == first.stdout
    assert again.stderr.startswith(f"already up in {platform.home}")
    assert platform.worker_pids() == {worker["id"]: worker["pid"] for worker in workers}

    viewer = platform.folder / "viewer.key"
    viewer.write_text(platform.run("operator", "create", "v", "--role", "viewer").stdout)
    refused = platform.run("down", "--operator-key-file", str(viewer), code=4)
    assert "needs the role admin" in refused.stderr
    down = platform.run("down")
    assert down.stdout == f"{platform.home} is down\n"
    platform.nothing_left()
    idle = platform.run("down")
    assert (idle.stdout, idle.stderr) == ("", f"nothing is running in {platform.home}\n")
    assert platform.run("get", "workers", code=6).stdout == ""


def test_other_settings_than_it_runs_with_are_not_taken_for_used(make_platform: MakePlatform) -> None:
    platform = make_platform(scripted(1))
    platform.up()
    same, other, wrong = (platform.folder / f"{name}.toml" for name in ("same", "other", "wrong"))
    same.write_text(f"# as it runs\n{scripted(1)}")
    other.write_text(scripted(2))
    wrong.write_text(scripted(1).replace("replicas", "replicaz"))
    assert platform.run("up", "--detach", "--config", str(same)).stderr.startswith("already up in ")
    ran = platform.run("up", "--detach", "--config", str(other), code=1)
    assert "keeps the settings that it was started with" in ran.stderr
    assert f"Others in --config {other}: pool[0].replicas\n" in ran.stderr
    assert f"hint: inferdeck down, then inferdeck up --config {other}\n" in ran.stderr
    assert ran.stdout == ""
    assert f"{wrong}:10: pool[0].replicaz" in platform.run("up", "-d", "--config", str(wrong), code=2).stderr
    assert len(platform.worker_pids()) == 1
    platform.run("down")
    platform.nothing_left()


def test_ctrl_c_brings_everything_down(make_platform: MakePlatform) -> None:
    platform = make_platform()
    up = platform.start("up", "--config", str(platform.config_path))
    up.until("Ctrl-C stops everything")
    platform.note()
    assert up.interrupt() == 130
    assert "everything is down" in up.text
    platform.nothing_left()


def test_sigterm_is_an_orderly_end(make_platform: MakePlatform) -> None:
    platform = make_platform(scripted(1))
    up = platform.start("up", "--config", str(platform.config_path))
    up.until("Ctrl-C stops everything")
    platform.note()
    assert up.interrupt(signal.SIGTERM) == 0
    platform.nothing_left()


def test_ctrl_c_while_it_starts_leaves_nothing(make_platform: MakePlatform) -> None:
    platform = make_platform(scripted(2, "start_s = 60.0"))
    up = platform.start("up", "--config", str(platform.config_path))
    up.until("starting the scripted engine")
    platform.note()
    assert up.interrupt() == 130
    assert "is up" not in up.text
    platform.nothing_left()


def test_a_killed_up_takes_everything_with_it(make_platform: MakePlatform) -> None:
    platform = make_platform()
    up = platform.start("up", "--config", str(platform.config_path))
    up.until("Ctrl-C stops everything")
    platform.note()
    up.process.kill()
    platform.nothing_left()


def test_down_elsewhere_ends_the_foreground(make_platform: MakePlatform) -> None:
    platform = make_platform(scripted(1))
    up = platform.start("up", "--config", str(platform.config_path))
    up.until("Ctrl-C stops everything")
    platform.note()
    platform.run("down")
    assert up.ended() == 0
    platform.nothing_left()


def test_a_second_interrupt_cuts_off_what_runs(make_platform: MakePlatform) -> None:
    platform = make_platform(scripted(1))
    up = platform.start("up", "--config", str(platform.config_path))
    up.until("Ctrl-C stops everything")
    platform.note()
    stream = platform.stream('{"script": {"tokens": 900, "delay_s": 0.1}}')
    assert stream.first.wait(60)
    up.process.send_signal(signal.SIGINT)
    up.until("stopping; once more")
    assert up.interrupt() == 130
    assert not stream.wait().complete
    platform.nothing_left()


def test_the_foreground_starts_a_killed_control_plane_again_and_streams_go_on(make_platform: MakePlatform) -> None:
    platform = make_platform()
    up = platform.start("up", "--config", str(platform.config_path))
    up.until("Ctrl-C stops everything")
    platform.note()
    workers, control_plane = platform.worker_pids(), platform.state["pid"]
    stream = platform.stream('{"script": {"tokens": 100, "delay_s": 0.05}}')
    assert stream.first.wait(60)
    platform.kill(control_plane)
    up.until("starting it again")
    until(lambda: platform.run("wait", "pool/tiny", code=None).returncode == 0, "the workers are taken over")
    assert platform.worker_pids() == workers
    assert platform.state["pid"] != control_plane
    assert stream.wait().complete
    platform.note()
    assert up.interrupt() == 130
    platform.nothing_left()


def test_the_next_up_takes_over_what_a_killed_control_plane_left(make_platform: MakePlatform) -> None:
    platform = make_platform()
    platform.up()
    workers, url = platform.worker_pids(), platform.url
    platform.kill(platform.state["pid"])
    assert platform.run("get", "workers", code=6).stdout == ""
    dry = platform.run("down", "--dry-run").stdout
    assert all(f"worker/{name} (pid {pid})" in dry for name, pid in workers.items())
    assert platform.ask().status_code == 200
    platform.up()
    assert (platform.worker_pids(), platform.url) == (workers, url)
    platform.run("down")
    platform.nothing_left()


def test_down_ends_what_a_killed_control_plane_left(make_platform: MakePlatform) -> None:
    platform = make_platform()
    platform.up()
    platform.kill(platform.state["pid"])
    assert "what is in flight cannot be told" in platform.run("down", "--now", code=2).stderr
    down = platform.run("down")
    assert "left over: gateway/g1, worker/tiny-1, worker/tiny-2" in down.stderr
    platform.nothing_left()
    assert platform.run("down").stderr.startswith("nothing is running")


def test_down_ends_a_platform_whose_state_was_lost(make_platform: MakePlatform) -> None:
    platform = make_platform()
    platform.up()
    pid = platform.state["pid"]
    (platform.home / "state.json").write_text("")
    lost = platform.run("get", "workers", code=6)
    assert f"(pid {pid}) says nowhere where it listens" in lost.stderr
    assert f"control plane (pid {pid})" in platform.run("down", "--dry-run").stdout
    platform.run("down")
    assert start_ticks(pid) == 0
    platform.nothing_left()


def test_down_ends_a_platform_whose_control_plane_is_paused(make_platform: MakePlatform) -> None:
    platform = make_platform()
    platform.up()
    os.kill(platform.state["pid"], signal.SIGSTOP)
    for words in (("get", "workers"), ("up", "--detach")):
        stuck = platform.run(*words, code=6)
        assert f"no answer, though its process (pid {platform.state['pid']}) lives" in stuck.stderr
        assert "inferdeck down ends all" in stuck.stderr
    assert "what is in flight cannot be told" in platform.run("down", "--now", code=2).stderr
    assert "workers stopped" in platform.run("down").stderr
    platform.nothing_left()


def test_down_touches_no_process_that_only_has_the_number(make_platform: MakePlatform, tmp_path: Path) -> None:
    platform = make_platform()
    bystander = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        record = platform.home / "run" / "workers" / "tiny-1.json"
        record.parent.mkdir(parents=True)
        values = {
            "worker_id": "tiny-1", "instance_id": "i", "pid": bystander.pid,
            "start_ticks": start_ticks(bystander.pid) - 1, "phase": "serving", "engine_pids": [],
        }  # fmt: skip
        record.write_text(json.dumps(values))
        platform.run("down")
        assert bystander.poll() is None
        assert not record.exists()
    finally:
        bystander.kill()
        bystander.wait()


def test_wrong_settings_are_told_with_file_and_line(make_platform: MakePlatform) -> None:
    platform = make_platform("[gateway]\nprot = 1\n")
    for words in (("up",), ("up", "--detach")):
        ran = platform.run(*words, "--config", str(platform.config_path), code=2)
        assert ran.stdout == ""
        assert ran.stderr.startswith(
            f"error: {platform.config_path}:2: gateway.prot: unknown key; did you mean port?\nhint: "
        )
    platform.nothing_left()
    assert platform.run("up", "--config", "nowhere.toml", code=2).stderr == "error: there is no file nowhere.toml\n"


def test_a_taken_port_is_told_with_its_holder(make_platform: MakePlatform) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        platform = make_platform(scripted().replace("port = 0", f"port = {port}", 1))
        ran = platform.run("up", "--detach", "--config", str(platform.config_path), code=1)
        assert f"gateway.port {port} on 127.0.0.1 is taken by process {os.getpid()}" in ran.stderr
        assert "hint: set port in [gateway]" in ran.stderr
    platform.nothing_left()


@pytest.mark.parametrize("detach", [[], ["--detach"]])
def test_workers_that_cannot_start_end_it_with_their_reason_and_log(
    make_platform: MakePlatform, detach: list[str]
) -> None:
    platform = make_platform(scripted(1, 'fail_start = "no weights here"'))
    ran = platform.run("up", *detach, "--config", str(platform.config_path), code=1)
    assert ran.stdout == ""
    assert "error: worker/tiny-1 failed 3 times: " in ran.stderr
    assert ran.stderr.count("no weights here") >= 4
    assert "the end of its log:" in ran.stderr
    platform.nothing_left()


@pytest.mark.parametrize("detach", [[], ["--detach"]])
def test_settings_that_a_worker_refuses_are_tried_once(make_platform: MakePlatform, detach: list[str]) -> None:
    platform = make_platform(scripted(2, 'delay_s = "soon"'))
    ran = platform.run("up", *detach, "--config", str(platform.config_path), code=1)
    assert " cannot start: " in ran.stderr
    assert f"{platform.config_path}:12: " in ran.stderr
    assert ran.stderr.endswith(f"hint: inferdeck doctor --config {platform.config_path}\n")
    tries = (platform.home / "logs" / "worker-tiny-1.log").read_text().count("the worker could not start")
    assert tries <= 1
    platform.nothing_left()


def test_settings_that_are_wrong_leave_a_running_platform_alone(make_platform: MakePlatform) -> None:
    platform = make_platform(scripted(1))
    platform.up()
    workers = platform.worker_pids()
    platform.kill(platform.state["pid"])
    wrong = platform.folder / "wrong.toml"
    wrong.write_text("[gateway]\nprot = 1\n")
    platform.run("up", "--detach", "--config", str(wrong), code=2)
    assert all(start_ticks(pid) for pid in workers.values())
    platform.up()
    assert platform.worker_pids() == workers


def test_a_start_that_takes_too_long_goes_on_in_the_background(make_platform: MakePlatform) -> None:
    platform = make_platform(scripted(1, "start_s = 8.0"))
    ran = platform.run("up", "--detach", "--timeout", "3s", "--config", str(platform.config_path), code=5)
    assert ran.stdout == ""
    assert "not ready after 3 s: " in ran.stderr
    until(lambda: platform.run("wait", "pool/tiny", code=None).returncode == 0, "the start in the background")
    platform.note()
    platform.run("down")
    platform.nothing_left()


def test_two_at_once_make_one_platform(make_platform: MakePlatform) -> None:
    platform = make_platform()
    both = [platform.start("up", "--detach", "--config", str(platform.config_path)) for _ in range(2)]
    codes = sorted(up.ended() for up in both)
    assert codes in ([0, 0], [0, 1]), [up.text for up in both]
    platform.run("wait", "pool/tiny", "--timeout", "60s")
    platform.note()
    assert len(platform.worker_pids()) == 2
    assert platform.ask().status_code == 200
    platform.run("down")
    platform.nothing_left()


def test_a_killed_worker_comes_back_and_no_client_hangs(make_platform: MakePlatform) -> None:
    platform = make_platform()
    platform.up()
    streams = [platform.stream('{"script": {"tokens": 200, "delay_s": 0.05}}') for _ in range(4)]
    assert all(stream.first.wait(60) for stream in streams)
    busy = lambda: [worker for worker in platform.snapshot().workers if worker.in_flight]  # noqa: E731
    victim = until(busy, "the router's report of them")[0]
    platform.kill(victim.pid)
    ended = [stream.wait() for stream in streams]
    assert all(stream.complete for stream in ended), [s.lines[-1:] for s in ended]
    until(lambda: platform.worker_pids()[victim.id] not in (0, victim.pid), "a new process")
    platform.run("wait", f"worker/{victim.id}", "--timeout", "60s")
    assert platform.ask().status_code == 200
    platform.note()
    kinds = [event["kind"] for event in platform.read("events") if event["subject"] == f"worker/{victim.id}"]
    assert kinds.count("worker_ready") == 2
    platform.run("down")
    platform.nothing_left()


def test_a_killed_gateway_comes_back(make_platform: MakePlatform) -> None:
    platform = make_platform(scripted(1))
    platform.up()
    [gateway] = platform.snapshot().gateways
    platform.kill(gateway.pid)
    until(lambda: platform.snapshot().gateways[0].pid not in (0, gateway.pid), "a new process")
    platform.run("wait", "gateway/g1", "--timeout", "60s")
    assert platform.ask().status_code == 200
    platform.note()
    platform.run("down")
    platform.nothing_left()


def test_now_needs_yes_when_it_cuts_something_off(make_platform: MakePlatform) -> None:
    platform = make_platform(scripted(1))
    platform.up()
    stream = platform.stream('{"script": {"tokens": 900, "delay_s": 0.1}}')
    assert stream.first.wait(60)
    until(platform.active, "the request is listed")
    refused = platform.run("down", "--now", code=2)
    assert "in flight: 1" in refused.stderr
    assert refused.stderr.rstrip().endswith("inferdeck down --yes --now")
    platform.run("down", "--now", "--yes")
    assert not stream.wait().complete
    platform.nothing_left()


def test_an_orderly_down_lets_what_runs_end(make_platform: MakePlatform) -> None:
    platform = make_platform(scripted(1))
    platform.up()
    stream = platform.stream('{"script": {"tokens": 40, "delay_s": 0.05}}')
    assert stream.first.wait(60)
    down = platform.run("down")
    assert stream.wait().complete
    assert "is down" in down.stdout
    platform.nothing_left()
