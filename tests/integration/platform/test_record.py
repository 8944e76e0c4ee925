"""A platform is recorded while a worker dies, its gateway is restarted and its control plane goes away; the recording
is then read where there is no engine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from console.record.reader import RecordingReader
from console.record.recording import Recording
from console.tui.replay.past import board_at
from control_plane.contracts.fleet import RequestPhase, Snapshot, WorkerPhase
from tests.integration.platform.conftest import MakePlatform
from tests.integration.platform.rig import Platform, scripted, until

WITHOUT_ENGINES = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("vllm", "torch", "workers"):
            raise ImportError(f"{name} is not installed here")
sys.meta_path.insert(0, Blocked())
from console.cli import main
main()
"""

PROMPT = "a prompt that nobody may keep"


def replay(*words: str) -> subprocess.CompletedProcess[str]:
    """The command where neither vLLM nor torch can be imported."""
    return subprocess.run(
        [sys.executable, "-P", "-c", WITHOUT_ENGINES, "replay", *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )


def test_what_happened_is_in_the_recording(tmp_path: Path, make_platform: MakePlatform) -> None:
    platform = make_platform(scripted(2, "delay_s = 0.02"))
    path = tmp_path / "incident.deck"
    platform.up()
    recorder = platform.start("record", str(path))
    recorder.until("recording")
    until(lambda: path.exists() and snapshots(path), "the first snapshot")
    calls = [platform.stream(json.dumps({"script": {"tokens": 600}})) for _ in range(4)]
    for call in calls:
        assert call.first.wait(60)
    victim = until(lambda: [r.worker_id for r in platform.active() if r.worker_id], "a worker that has a request")[0]
    platform.kill(platform.worker_pids()[victim])
    until(lambda: platform.snapshot().workers[0].restarts or platform.snapshot().workers[1].restarts, "a restart")
    until(lambda: all(w.phase is WorkerPhase.READY for w in platform.snapshot().workers), "both workers")
    platform.ask(PROMPT, max_tokens=5)
    for call in calls:
        call.wait()
    gateway = platform.snapshot().gateways[0].pid
    platform.kill(gateway)
    until(lambda: [g.pid for g in platform.snapshot().gateways if g.ready] not in ([], [gateway]), "a gateway again")
    platform.kill(platform.state["pid"])
    recorder.until("trying again")
    platform.up()
    recorder.until("the platform is back")
    last = platform.ask(PROMPT, max_tokens=7).json()["id"]
    until(lambda: any(request.id in last for request in platform.snapshot().requests), "the last request")
    until(lambda: last_seen(path, last), "the last request in the recording")
    assert recorder.interrupt() == 0
    assert "snapshots" in recorder.text
    truth = [event for event in events_of(platform) if event["kind"] != "platform_started"]
    lines = [json.loads(line) for line in replay(str(path), "-o", "json").stdout.splitlines()]
    assert {line["kind"] for line in lines} >= {"session", "snapshot", "event", "gap", "end"}
    assert [line["unix"] for line in lines] == sorted(line["unix"] for line in lines)
    told = [line["value"] for line in lines if line["kind"] == "event"]
    assert [event for event in told if event in truth]
    died = next(event for event in told if event["subject"] == f"worker/{victim}" and event["severity"] == "error")
    assert "SIGKILL" in died["message"]
    assert len([line for line in lines if line["kind"] == "gap" and line["subject"] is None]) == 1
    assert (
        len({gateway["pid"] for line in lines if line["kind"] == "snapshot" for gateway in gateways(line)} - {0}) == 2
    )
    assert PROMPT not in json.dumps(lines)
    assert not any(key in json.dumps(lines) for key in keys_of(platform))
    info = json.loads(replay(str(path), "--info", "-o", "json").stdout)
    assert (info["ended"], info["damages"], info["unread"]) == ("interrupted", [], 0)
    assert info["requests"] >= 6
    with RecordingReader.open(path) as reader:
        found = Recording(reader)
        before, _ = board_at(found, "", next(line["unix"] for line in lines if line["value"] == died) - 0.01)
        after, _ = board_at(found, "", found.last_unix)
    was = before.view(0.0).worker(victim)
    now = after.view(0.0).worker(victim)
    assert was is not None
    assert now is not None
    assert was.phase is WorkerPhase.READY
    assert now.restarts + now.pid != was.restarts + was.pid
    ended = [r for r in after.view(0.0).requests if r.id in last]
    assert [request.phase for request in ended] == [RequestPhase.FINISHED]


def snapshots(path: Path) -> list[Snapshot]:
    """Those that are on disk by now."""
    with RecordingReader.open(path) as reader:
        return [entry.value for entry in Recording(reader).entries() if isinstance(entry.value, Snapshot)]


def last_seen(path: Path, answer_id: str) -> bool:
    return any(r.id in answer_id and not r.phase.active for r in snapshots(path)[-1].requests)


def events_of(platform: Platform) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = platform.read("events")
    return listed


def gateways(line: dict[str, Any]) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = line["value"]["gateways"]
    return listed


def keys_of(platform: Platform) -> list[str]:
    return [(platform.home / name).read_text().strip() for name in ("api.key", "operator.key")]
