"""Why a request went where it went, asked on the command line of a platform that runs."""

from __future__ import annotations

import asyncio
import json

import httpx

from console.client import OperatorClient
from control_plane.contracts.decision import DecisionView
from tests.integration.platform.conftest import MakePlatform
from tests.integration.platform.rig import Platform, until


async def last(platform: Platform) -> tuple[DecisionView, ...]:
    async with OperatorClient.open(platform.home) as client:
        return (await client.decisions.newest(1)).decisions


def test_decisions_are_explained_scored_again_and_made_under_a_profile_of_ones_own(make_platform: MakePlatform) -> None:
    platform = make_platform()
    platform.up()
    long = platform.stream(json.dumps({"script": {"tokens": 900, "delay_s": 0.05}}))
    assert long.first.wait(60)
    [running] = until(platform.active, "the request is listed")
    other = {"tiny-1": "tiny-2", "tiny-2": "tiny-1"}[running.worker_id]

    told = platform.read("explain", running.id)
    [decision] = told["decisions"]
    assert (decision["chosen"], decision["profile"], told["silent"]) == (running.worker_id, "prefix_aware", [])
    assert {each["worker_id"] for each in decision["candidates"]} == {"tiny-1", "tiny-2"}
    text = platform.run("explain", f"request/{running.id}").stdout
    assert f"attempt 1 → {running.worker_id}" in text
    assert f"not {other}: as good: equals are drawn" in text
    assert "drawn among 2" in platform.run("describe", f"request/{running.id}").stdout

    platform.run("policy", "set", "routing.profiles.mine.weights.queue_depth=1", "routing.profile=mine")
    platform.run("cordon", running.worker_id)

    def by_mine() -> DecisionView | None:
        """The newest decision, where it was made by the new profile; each look makes one more."""
        platform.ask("hello", max_tokens=2)
        [newest] = asyncio.run(last(platform))
        return newest if newest.profile == "mine" else None

    made = until(by_mine, "a decision by the new profile")
    text = platform.run("explain", made.request_id).stdout
    assert "the only one that could take it" in text
    assert f"not {running.worker_id}: cordoned: an operator keeps new requests away from it" in text
    platform.run("uncordon", running.worker_id)

    refused = platform.run("policy", "set", "routing.profiles.mine=none", code=2)
    assert "in use cannot be taken away" in refused.stderr

    again = platform.read("replay-decisions", "--profile", "mine")
    [router] = again["routers"]
    assert router["decisions"] >= 2
    assert sum(share["requests"] for share in router["workers"].values()) == router["decisions"]
    assert "which nobody can know" in platform.run("replay-decisions", "--weights", "kv_headroom=1").stdout
    assert "no profile" in platform.run("replay-decisions", "--profile", "best", code=2).stderr

    key = (platform.home / "api.key").read_text().strip()
    metrics = httpx.get(
        f"{platform.url}/metrics", headers={"Authorization": f"Bearer {key}"}, timeout=60, trust_env=False
    ).text
    assert f'decisions_total{{model="tiny-model",profile="prefix_aware",worker="{running.worker_id}"}} 1.0' in metrics
    assert 'inferdeck_router_endpoints_left_out_total{model="tiny-model",reason="cordoned"}' in metrics

    platform.run("cancel", running.id, "--yes")
    long.wait()
    assert platform.run("explain", "req-unknown", code=3).stdout == ""


def test_an_attempt_on_a_worker_that_was_lost_is_told_with_the_one_after_it(make_platform: MakePlatform) -> None:
    platform = make_platform()
    platform.up()
    stream = platform.stream(json.dumps({"script": {"tokens": 300, "delay_s": 0.02}}))
    assert stream.first.wait(60)
    [running] = until(platform.active, "the request is listed")
    platform.kill(platform.worker_pids()[running.worker_id])
    stream.wait()
    decisions = [each for each in platform.read("explain", running.id)["decisions"] if each["chosen"]]
    assert [each["attempt"] for each in decisions] == [1, 2]
    assert decisions[0]["chosen"] == running.worker_id != decisions[1]["chosen"]
    assert decisions[1]["continued_tokens"] > 0
    assert running.worker_id in {each["worker_id"] for each in decisions[1]["rejected"]}
