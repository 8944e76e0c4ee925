"""kill -9 of each process in the middle of ten conversations: every acknowledged turn is there afterwards."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.platform.conftest import MakePlatform
from tests.integration.platform.rig import PATIENCE_S, Platform, until
from tests.postgres import Postgres

CONVERSATIONS = 10
CONFIG = """
[gateway]
port = 0
replicas = 2
[api]
port = 0
[store]
url = "{url}"
[[pool]]
name = "tiny"
model = "tiny-model"
engine = "scripted"
replicas = 2
max_context = 32768
[pool.engine_args]
total_blocks = 65536
max_context = 32768
"""


class Talk:
    """One conversation, and a turn of it that is streamed beside the test."""

    def __init__(self, platform: Platform, number: int) -> None:
        self.number = number
        key = (platform.home / "api.key").read_text().strip()
        self._http = httpx.Client(headers={"Authorization": f"Bearer {key}"}, timeout=PATIENCE_S, trust_env=False)
        self._platform = platform
        self.id = self._json("POST", "/v1/conversations", json={"metadata": {"number": str(number)}})["id"]
        self.turns: list[tuple[str, str]] = []
        """What was asked, and what was received of the answer."""
        self.text = ""
        self.cut = False
        """Whether the last answer was cut off."""
        self.first = threading.Event()
        self.done = threading.Event()

    def items(self) -> list[dict[str, Any]]:
        query = f"/v1/conversations/{self.id}/items?order=asc&limit=100"
        data: list[dict[str, Any]] = self._json("GET", query)["data"]
        return data

    def ask(self, script: dict[str, Any]) -> None:
        self.text, self.cut = "", False
        self.first, self.done = threading.Event(), threading.Event()
        question = json.dumps({"script": script, "n": len(self.turns)})
        threading.Thread(target=self._ask, args=(question, self._url()), daemon=True).start()

    def _ask(self, question: str, url: str) -> None:
        body = {"model": "tiny-model", "stream": True, "conversation": self.id, "ignore_eos": True, "max_tokens": 1000,
                "messages": [{"role": "user", "content": question}]}  # fmt: skip
        try:
            with self._http.stream("POST", f"{url}/v1/chat/completions", json=body) as answer:
                assert answer.status_code == 200, answer.read()
                for line in answer.iter_lines():
                    if line.startswith("data: {"):
                        for choice in json.loads(line[6:]).get("choices", []):
                            self.text += choice["delta"].get("content", "")
                    if len(self.text) > 20:
                        self.first.set()
        except httpx.HTTPError:
            self.cut = True
        finally:
            self.turns.append((question, self.text))
            self.first.set()
            self.done.set()

    def _url(self) -> str:
        """The gateways take turns."""
        urls = self._platform.state["gateway_urls"]
        return str(urls[self.number % len(urls)])

    def _json(self, method: str, path: str, **fields: Any) -> Any:
        """Of any gateway that answers."""

        def answer() -> httpx.Response | None:
            for url in self._platform.state["gateway_urls"]:
                try:
                    return self._http.request(method, url + path, **fields)
                except httpx.HTTPError:
                    continue
            return None

        found = until(answer, f"an answer to {method} {path}")
        assert found.status_code == 200, found.text
        return found.json()


def said(talk: Talk) -> list[tuple[str, str]]:
    return [(item["role"], "".join(part["text"] for part in item["content"])) for item in talk.items()]


def check(talk: Talk) -> None:
    """Every turn is there in its order; of each answer at least what was received, and nothing runs."""
    until(lambda: all(item["status"] != "in_progress" for item in talk.items()), "the end of every turn")
    items = said(talk)
    assert [role for role, _ in items] == ["user", "assistant"] * len(talk.turns)
    for (question, received), asked, answered in zip(talk.turns, items[::2], items[1::2], strict=True):
        assert asked[1] == question
        assert answered[1].startswith(received)


LONG = {"tokens": 250, "delay_s": 0.02}
SHORT = {"tokens": 30, "delay_s": 0.0}


def in_the_middle(talks: list[Talk]) -> None:
    for talk in talks:
        talk.ask(LONG)
    for talk in talks:
        assert talk.first.wait(PATIENCE_S)
        assert not talk.done.is_set()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_what_is_killed_loses_no_turn(kind: str, make_platform: MakePlatform, request: pytest.FixtureRequest) -> None:
    """HI01, HI03: a worker, a gateway, the control plane, then everything at once is killed while ten conversations are
    answered."""
    url = ""
    if kind == "postgresql":
        postgres: Postgres = request.getfixturevalue("postgres")
        url = postgres.new_database()
    platform = make_platform(CONFIG.format(url=url))
    platform.up()
    talks = [Talk(platform, number) for number in range(CONVERSATIONS)]

    def all_done(what: str) -> None:
        for talk in talks:
            assert talk.done.wait(PATIENCE_S), what
            check(talk)

    in_the_middle(talks)
    worker = next(iter(platform.worker_pids().values()))
    platform.kill(worker)
    all_done("a worker was killed")
    assert {talk.items()[-1]["turn"]["status"] for talk in talks} <= {"completed", "incomplete"}
    assert any(request.retries for request in platform.snapshot().requests), "none was under way there"
    until(lambda: len([pid for pid in platform.worker_pids().values() if pid]) == 2, "the worker again")

    in_the_middle(talks)
    gateway = platform.snapshot().gateways[0].pid
    platform.kill(gateway)
    until(lambda: platform.snapshot().gateways[0].pid not in (0, gateway), "the gateway again")
    platform.note()
    all_done("a gateway was killed")
    assert all((talk.items()[-1]["turn"]["status"] == "failed") == talk.cut for talk in talks)
    assert {talk.cut for talk in talks} == {True, False}

    in_the_middle(talks)
    platform.kill(platform.state["pid"])
    all_done("the control plane was killed")
    assert {talk.items()[-1]["turn"]["status"] for talk in talks} <= {"completed", "incomplete"}
    platform.up()

    in_the_middle(talks)
    platform.note()
    everything = [*platform.processes()]
    for pid in everything:
        os.kill(pid, 9)
    for talk in talks:
        assert talk.done.wait(PATIENCE_S)
    until(lambda: not platform.processes(), "the end of every process")
    platform.up()
    all_done("everything was killed")
    for talk in talks:
        talk.ask(SHORT)
    all_done("asked once more")
    assert {talk.items()[-1]["turn"]["status"] for talk in talks} <= {"completed", "incomplete"}
    platform.run("down")
    platform.nothing_left()
    left = list((Path(platform.home) / "run" / "journals").iterdir())
    assert left == []
