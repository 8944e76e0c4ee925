"""Conversations as operators see them: how many and how large, and what was said only where that is asked for."""

from __future__ import annotations

import json
from typing import Any

import httpx

from tests.integration.platform.rig import Platform

SAID = "SENTINEL2"


def post(platform: Platform, path: str, body: Any) -> Any:
    key = (platform.home / "api.key").read_text().strip()
    answer = httpx.post(
        platform.url + path, headers={"Authorization": f"Bearer {key}"}, json=body, timeout=60, trust_env=False
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_operators_see_sizes_and_admins_what_was_said(platform: Platform) -> None:
    """SE05: what was said is in no list, no description and no log; who reads it is in the audit."""
    name = post(platform, "/v1/conversations", {"metadata": {"k": SAID}})["id"]
    asked = json.dumps({"script": {"text": "an answer"}, "mark": SAID})
    body = {"model": "tiny-model", "conversation": name, "messages": [{"role": "user", "content": asked}]}
    post(platform, "/v1/chat/completions", body)

    listed = [row for row in platform.read("get", "conversations") if row["id"] == name]
    assert [(row["tenant"], row["items"]) for row in listed] == [("default", 2)]
    assert listed[0]["characters"] == len(asked) + len("an answer")
    assert name in platform.run("get", "conversations").stdout
    assert platform.run("get", f"conversation/{name}", "-o", "name").stdout == f"conversation/{name}\n"

    described = platform.read("describe", name)
    assert [(item["role"], item["status"], item["turn_status"]) for item in described["items"]] == [
        ("user", "completed", "completed"),
        ("assistant", "completed", "completed"),
    ]
    shown = platform.run("describe", f"conversation/{name}").stdout
    assert "2 items" in shown
    assert SAID not in shown + json.dumps(described) + json.dumps(listed)

    read = platform.read("describe", f"conversation/{name}", "--content")
    assert [item["text"] for item in read["items"]] == [asked, "an answer"]
    assert "an answer" in platform.run("describe", name, "--content").stdout
    entries = [entry for entry in platform.read("get", "audit") if entry["target"] == f"conversation/{name}"]
    assert {entry["action"] for entry in entries} == {"conversation.read"}
    logs = "".join(path.read_text() for path in (platform.home / "logs").iterdir())
    assert SAID not in logs + json.dumps(entries)
    platform.run("describe", "conversation/conv_none", code=3)
    platform.run("describe", f"conversation/{name}", "worker/tiny-1", code=2)
