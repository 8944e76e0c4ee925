"""Operating a platform that serves: what is shown agrees with what a client measures, and what is asked is done."""

from __future__ import annotations

import itertools
import json

import pytest

from control_plane.contracts.fleet import RequestPhase, RequestView
from tests.integration.platform.rig import Platform, until


def finished(platform: Platform) -> dict[str, int]:
    """Requests that each worker has ended since its start."""
    return {worker.id: worker.load.finished for worker in platform.snapshot().workers if worker.load is not None}


LONG = '{"script": {"tokens": 900, "delay_s": 0.05}}'


def test_thirty_two_streams_without_an_error_and_every_counter_back_at_zero(platform: Platform) -> None:
    data = platform.read(
        "load", "-c", "32", "-n", "96", "--prompt-tokens", "16-64", "--output-tokens", "8-32", "--prefixes", "4",
        "--ignore-eos",
    )  # fmt: skip
    assert data["requests"] == {"started": 96, "ok": 96, "cancelled": 0, "failed": 0, "unfinished": 0}
    assert data["errors"] == {}
    assert data["tokens"]["output"] == data["tokens"]["chunks"] >= 96 * 8
    assert data["ttft_s"]["count"] == 96
    until(platform.idle, "every counter at zero")
    assert min(finished(platform).values()) > 10


def test_clients_that_leave_free_what_they_held(platform: Platform) -> None:
    data = platform.read("load", "--rate", "40", "-n", "40", "--cancel", "0.5", "--output-tokens", "64", "--ignore-eos")
    assert data["requests"]["failed"] == 0
    assert data["requests"]["cancelled"] > 5
    until(platform.idle, "every counter at zero")


def test_an_answer_with_its_figures_and_the_platform_s_own_of_it(platform: Platform) -> None:
    known = {request.id for request in platform.snapshot().requests}
    script = '{"script": {"text": "one two three four five six", "delay_s": 0.05}}'
    ran = platform.run("chat", script, "--max-tokens", "100", "-o", "json")
    answer = json.loads(ran.stdout)
    assert answer["finish_reason"] == "stop"
    assert answer["ttft_s"] > 0
    assert "TTFT" in ran.stderr

    def recorded() -> list[RequestView]:
        requests = platform.snapshot().requests
        return [r for r in requests if r.id not in known and r.phase is RequestPhase.FINISHED]

    [request] = until(recorded, "the request among those that ended")
    assert request.output_tokens == answer["usage"]["completion_tokens"]
    assert request.prompt_tokens == answer["usage"]["prompt_tokens"]
    assert request.ttft_s == pytest.approx(answer["ttft_s"], abs=0.25)
    assert request.itl_p50_s == pytest.approx(answer["itl_p50_s"], abs=0.05)
    shown = platform.run("describe", f"request/{request.id}").stdout
    stages = [line.split()[0] for line in shown.splitlines() if "│" in line]
    assert [stage for stage in stages if stage != "reply"][-2:] == ["prefill", "decode"]
    assert {"auth", "tokenise", "queue", "route"} <= set(stages)


def test_chat_prints_the_text_and_takes_a_prompt_from_a_pipe(platform: Platform) -> None:
    script = '{"script": {"text": "hello \\u001b[31mworld"}}'
    shown = platform.run("chat", script).stdout
    assert "\x1b" not in shown
    assert platform.run("chat", stdin=script).stdout == shown
    assert platform.run("chat", script, "--plain").stdout == shown
    assert "nothing was asked" in platform.run("chat", code=2, stdin="  ").stderr


def test_chat_s_errors_have_their_codes(platform: Platform) -> None:
    unknown = platform.run("chat", "hi", "-m", "nope", code=3)
    assert "model_not_found" in unknown.stderr
    wrong = platform.folder / "wrong.key"
    wrong.write_text("sk-inferdeck-wrong")
    refused = platform.run("chat", "hi", "--api-key-file", str(wrong), code=4)
    assert "refuses the key (HTTP 401)" in refused.stderr
    assert platform.run("load", "-n", "1", "--api-key-file", str(wrong), code=4).stdout == ""


def test_the_home_s_key_goes_to_no_other_endpoint(platform: Platform) -> None:
    ran = platform.run("chat", "hi", "--url", f"{platform.url}/v1", code=4)
    assert "refuses the key" in ran.stderr


def test_a_request_is_cancelled_and_its_client_told(platform: Platform) -> None:
    """C04: by the command line."""
    stream = platform.stream(LONG)
    assert stream.first.wait(60)
    [request] = until(platform.active, "the request is listed")
    platform.run("cancel", request.id, code=2)
    assert platform.run("cancel", request.id, "--dry-run").stdout.endswith("(dry run)\n")
    assert platform.run("cancel", f"request/{request.id}", "--yes").stdout == f"request/{request.id} cancelled\n"
    assert stream.wait().error_code == "request_cancelled"
    until(platform.idle, "every counter at zero")
    again = platform.run("cancel", request.id)
    assert again.stdout == f"request/{request.id} has ended already\n"
    assert platform.run("cancel", "req-unknown", "--yes", code=3).stdout == ""


def test_ctrl_c_ends_the_answer_at_the_worker(platform: Platform) -> None:
    chat = platform.start("chat", LONG, "--max-tokens", "1000")
    until(platform.active, "the request is listed")
    assert chat.interrupt() == 130
    assert "cancelled after" in chat.text
    until(platform.idle, "every counter at zero")


def test_a_drain_lets_streams_end_and_new_ones_go_elsewhere(platform: Platform) -> None:
    streams = [platform.stream('{"script": {"tokens": 80, "delay_s": 0.05}}') for _ in range(4)]
    assert all(stream.first.wait(60) for stream in streams)
    plan = platform.run("drain", "tiny-1", "--dry-run").stdout
    assert plan.startswith("would cordon worker/tiny-1")
    assert platform.read("get", "worker/tiny-1")["cordoned"] is False
    drained = platform.run("drain", "worker/tiny-1", "--yes", "--timeout", "60s")
    assert drained.stdout == "worker/tiny-1 drained\n"
    before = finished(platform)["tiny-1"]
    assert all(platform.ask(max_tokens=3).status_code == 200 for _ in range(4))
    assert platform.run("wait", "worker/tiny-1", "--for", "drained").stdout == "worker/tiny-1 drained\n"
    row = platform.read("get", "worker/tiny-1")
    assert (row["cordoned"], row["draining"], row["drained"], row["status"]) == (True, False, True, "ready,drained")
    assert "ready,drained" in platform.run("get", "workers").stdout
    assert finished(platform)["tiny-1"] == before
    assert platform.run("drain", "tiny-1", "--yes").stdout == "worker/tiny-1 drained\n"
    assert all(stream.wait().complete for stream in streams)
    platform.run("uncordon", "tiny-1")
    prompts = map(str, itertools.count())  # not all alike: those would go where their beginning is cached
    until(
        lambda: platform.ask(next(prompts), max_tokens=1) and finished(platform)["tiny-1"] > before,
        "requests on the worker again",
    )


def test_a_drain_that_may_not_wait_says_what_is_left(platform: Platform) -> None:
    streams = [platform.stream(LONG) for _ in range(2)]
    assert all(stream.first.wait(60) for stream in streams)
    busy = until(platform.active, "the requests are listed")[0].worker_id
    ran = platform.run("drain", busy, "--yes", "--timeout", "0.2s", code=5)
    assert f"worker/{busy} is cordoned, but not drained after 0.2s" in ran.stderr
    assert "still in flight: req-" in ran.stderr
    for request in platform.active():
        platform.run("cancel", request.id, "--yes")
    assert all(stream.wait().error_code == "request_cancelled" for stream in streams)
    platform.run("uncordon", busy)
    until(platform.idle, "every counter at zero")


def test_scaling_in_and_out_cuts_no_stream(platform: Platform) -> None:
    streams = [platform.stream('{"script": {"tokens": 60, "delay_s": 0.05}}') for _ in range(4)]
    assert all(stream.first.wait(60) for stream in streams)
    assert platform.run("scale", "tiny=1", code=2).stdout == ""
    assert platform.run("scale", "tiny=1", "--yes").stdout == "pool/tiny scaled from 2 to 1\n"
    platform.run("wait", "pool/tiny", "--timeout", "60s")
    assert len(platform.worker_pids()) == 1
    assert all(stream.wait().complete for stream in streams)
    assert platform.run("scale", "tiny=2").stdout == "pool/tiny scaled from 1 to 2\n"
    platform.run("wait", "pool/tiny", "--timeout", "60s")
    assert len(platform.worker_pids()) == 2
    platform.note()
    kinds = [event["kind"] for event in platform.read("events")]
    assert kinds.count("scaled") == 2


def test_logs_follow_and_are_readable(platform: Platform) -> None:
    assert "serving" in platform.run("logs", "tiny-1").stdout
    follow = platform.start("logs", "control-plane", "-f", "--tail", "1")
    until(lambda: follow.text, "the last line")
    platform.run("cordon", "tiny-1")
    platform.run("uncordon", "tiny-1")
    follow.until("uncordoned")
    assert follow.interrupt() == 130
    assert "Traceback" not in follow.text


def test_doctor_knows_the_ports_that_are_ours(platform: Platform) -> None:
    data = json.loads(platform.run("doctor", "--quick", "-o", "json", "--config", str(platform.config_path)).stdout)
    verdicts = {check["name"]: check["verdict"] for check in data["checks"]}
    assert set(verdicts.values()) <= {"ok", "warn"}
    details = {check["name"]: check["detail"] for check in data["checks"]}
    assert details["platform"].startswith(f"up, control plane pid {platform.state['pid']}")
    assert any(setting["source"].startswith(str(platform.config_path)) for setting in data["settings"])


def test_keys_and_prompts_are_in_no_log_and_no_process_s_arguments(platform: Platform) -> None:
    """SE05."""
    secret = (platform.home / "api.key").read_text().strip()
    operator = (platform.home / "operator.key").read_text().strip()
    assert platform.ask("SENTINEL-PROMPT", max_tokens=2).status_code == 200
    logged = "".join(path.read_text() for path in (platform.home / "logs").glob("*.log"))
    assert not [word for word in (secret, operator, "SENTINEL-PROMPT") if word in logged]
