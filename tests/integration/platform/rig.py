"""A platform driven the way a person does: by ``inferdeck`` in processes of its own, in a temporary home."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from console.client import OperatorClient
from control_plane.contracts.fleet import RequestView, Snapshot
from control_plane.contracts.worker_spec import start_ticks

PATIENCE_S = 90.0
INFERDECK = [sys.executable, "-P", "-c", "from console.cli import main; main()"]

SCRIPTED = """
[gateway]
port = 0
[api]
port = 0
[[pool]]
name = "tiny"
model = "tiny-model"
engine = "scripted"
replicas = {replicas}
[pool.engine_args]
{arguments}
"""


def scripted(replicas: int = 2, arguments: str = "delay_s = 0.005") -> str:
    return SCRIPTED.format(replicas=replicas, arguments=arguments)


def until(fact: Callable[[], Any], what: str, *, patience_s: float = PATIENCE_S) -> Any:
    """Wait for a fact that another process makes."""
    deadline = time.monotonic() + patience_s
    while not (value := fact()):
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.05)
    return value


@dataclass
class Platform:
    folder: Path
    config: str = field(default_factory=scripted)
    patience_s: float = PATIENCE_S
    pids: dict[int, int] = field(default_factory=dict)
    ports: set[int] = field(default_factory=set)
    foreground: list[Foreground] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.home = self.folder / "home"
        self.config_path = self.folder / "deck.toml"
        self.config_path.write_text(self.config)

    @property
    def environment(self) -> dict[str, str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("INFERDECK_")}
        return {**clean, "INFERDECK_HOME": str(self.home), "TMPDIR": str(self.folder)}

    def run(self, *words: str, code: int | None = 0, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """One command to its end; its exit code must be ``code`` (None: any)."""
        ran = subprocess.run(
            [*INFERDECK, *words],
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=self.patience_s,
            check=False,
        )
        assert code is None or ran.returncode == code, (
            f"inferdeck {' '.join(words)}: {ran.returncode}\n{ran.stdout}{ran.stderr}"
        )
        return ran

    def up(self) -> dict[str, Any]:
        facts = json.loads(self.run("up", "--detach", "--config", str(self.config_path), "-o", "json").stdout)
        self.note()
        assert isinstance(facts, dict)
        return facts

    def read(self, *words: str) -> Any:
        return json.loads(self.run(*words, "-o", "json").stdout)

    def snapshot(self) -> Snapshot:
        """What the control plane knows now; for polling, where a command would cost a second each time."""

        async def ask() -> Snapshot:
            async with OperatorClient.open(self.home) as client:
                return await client.get_snapshot(finished_requests=True)

        return asyncio.run(ask())

    def note(self) -> None:
        """Remember every process and port that must be gone in the end."""
        state, snapshot = self.state, self.snapshot()
        self._note(state["pid"])
        self.ports |= {int(state["api_address"].rpartition(":")[2])}
        self.ports |= {urlsplit(url).port or 0 for url in state["gateway_urls"]}
        for worker in snapshot.workers:
            self._note(worker.pid)
            self._note(worker.engine_pid)
            if worker.address:
                self.ports.add(int(worker.address.rpartition(":")[2]))
        for member in (*snapshot.gateways, *snapshot.routers):
            self._note(member.pid)

    def active(self) -> list[RequestView]:
        return [request for request in self.snapshot().requests if request.phase.active]

    def idle(self) -> bool:
        """Whether every counter is at zero."""
        snapshot = self.snapshot()
        loads = [worker.load for worker in snapshot.workers]
        return (
            not any(request.phase.active for request in snapshot.requests)
            and not any(each.in_flight or each.queued for each in (*snapshot.gateways, *snapshot.routers))
            and not any(worker.in_flight for worker in snapshot.workers)
            and all(load is not None and not (load.running or load.waiting or load.used_blocks) for load in loads)
        )

    def _note(self, pid: int) -> None:
        if pid:
            self.pids[pid] = start_ticks(pid)

    @property
    def cache(self) -> Path:
        """Where converted models lie: shared by all platforms of this user."""
        return Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "inferdeck"

    @property
    def state(self) -> dict[str, Any]:
        values: dict[str, Any] = json.loads((self.home / "state.json").read_text())
        return values

    @property
    def url(self) -> str:
        return str(self.state["gateway_urls"][0])

    def worker_pids(self) -> dict[str, int]:
        return {worker.id: worker.pid for worker in self.snapshot().workers}

    def kill(self, pid: int) -> None:
        ticks = start_ticks(pid)
        os.kill(pid, signal.SIGKILL)
        until(lambda: start_ticks(pid) != ticks or ticks == 0, f"the end of {pid}")

    def ask(self, prompt: str = "hi", **body: Any) -> httpx.Response:
        key = (self.home / "api.key").read_text().strip()
        return httpx.post(
            f"{self.url}/v1/chat/completions",
            headers={"Authorization": f"Bearer {key}"},
            json={"model": "tiny-model", "messages": [{"role": "user", "content": prompt}], **body},
            timeout=self.patience_s,
            trust_env=False,
        )

    def stream(self, script: str, max_tokens: int = 1000, **fields: Any) -> Streaming:
        return Streaming(self, script, {"max_tokens": max_tokens, **fields})

    def start(self, *words: str) -> Foreground:
        started = Foreground(self, words)
        self.foreground.append(started)
        return started

    def nothing_left(self) -> None:
        """No process that was ever noted, none that names this home, no port, no record."""
        until(lambda: not self._running(), "the end of every process")
        listening = [port for port in self.ports if _listens(port)]
        assert listening == []
        records = [path for path in (self.home / "run").rglob("*") if path.is_file()]
        assert [path for path in records if path.suffix == ".json"] == []
        assert not (self.home / "state.json").exists()

    def _running(self) -> list[int]:
        noted = [pid for pid, ticks in self.pids.items() if ticks and start_ticks(pid) == ticks]
        return noted + self.processes()

    def processes(self) -> list[int]:
        """Those whose command line names the folder of this platform."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                try:
                    words = (entry / "cmdline").read_bytes().decode("utf-8", "replace")
                except OSError:
                    continue
                if str(self.folder) in words and start_ticks(int(entry.name)):
                    found.append(int(entry.name))
        return found

    def end(self) -> None:
        """Whatever a failed test left."""
        for started in self.foreground:
            started.process.kill()
            started.process.wait()
        self.run("down", "--now", "--yes", code=None)
        for pid in self._running():
            os.kill(pid, signal.SIGKILL)


class Foreground:
    """A command that goes on, with what it has said so far."""

    def __init__(self, platform: Platform, words: tuple[str, ...]) -> None:
        self.text = ""
        self.process = subprocess.Popen(
            [*INFERDECK, *words],
            env=platform.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            bufsize=1,
            start_new_session=True,
        )
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.text += line

    def until(self, words: str) -> None:
        until(lambda: words in self.text or self.process.poll() is not None, f"{words!r} in {self.text}")
        assert words in self.text, self.text

    def interrupt(self, number: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> int:
        code = self.process.wait(PATIENCE_S)
        self._reading.join(PATIENCE_S)
        return code


class Streaming:
    """A streamed answer that is read beside the test."""

    def __init__(self, platform: Platform, script: str, fields: dict[str, Any]) -> None:
        self.lines: list[str] = []
        self.failure = ""
        self._key = (platform.home / "api.key").read_text().strip()
        self._url = f"{platform.url}/v1/chat/completions"
        self._body = {
            "model": "tiny-model",
            "stream": True,
            "messages": [{"role": "user", "content": script}],
            **fields,
        }
        self._patience_s = platform.patience_s
        self.first = threading.Event()
        self.done = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            headers = {"Authorization": f"Bearer {self._key}"}
            with httpx.stream(
                "POST", self._url, headers=headers, json=self._body, timeout=self._patience_s, trust_env=False
            ) as answer:
                for line in answer.iter_lines():
                    if line.startswith("data: "):
                        self.lines.append(line.removeprefix("data: "))
                        if len(self.lines) > 2:
                            self.first.set()
        except httpx.HTTPError as error:
            self.failure = type(error).__name__
        finally:
            self.first.set()
            self.done.set()

    def wait(self, patience_s: float = PATIENCE_S) -> Streaming:
        assert self.done.wait(patience_s), "the stream hangs"
        return self

    @property
    def complete(self) -> bool:
        return bool(self.lines) and self.lines[-1] == "[DONE]"

    @property
    def text(self) -> str:
        events = [json.loads(line) for line in self.lines if line != "[DONE]"]
        return "".join(choice["delta"].get("content", "") for event in events for choice in event.get("choices", ()))

    @property
    def error_code(self) -> str:
        """Of the error event that ended it, "" where there was none."""
        last = json.loads(self.lines[-1]) if self.lines and not self.complete else {}
        return str(last.get("error", {}).get("code", ""))


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(2.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0
