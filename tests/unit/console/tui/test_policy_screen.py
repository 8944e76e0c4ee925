"""The screen of the policy, and what the console says of the home's own key."""

from __future__ import annotations

from dataclasses import replace

from control_plane.contracts.access import HomeKey
from control_plane.contracts.errors import Unavailable
from control_plane.contracts.policy import Limits, Policy
from control_plane.contracts.routing import Routing
from tests.snapshots.memory import keys
from tests.unit.console.tui.harness import console

POLICY = Policy(version=7, tenants={"acme": Limits(tpm=5000)}, routing=Routing("round_robin"))


async def test_every_part_of_the_policy_is_there() -> None:
    async with console(policy_there=POLICY, size=(120, 40)) as seen:
        await seen.command("policy")
        await seen.until(lambda: "round_robin" in seen.text)
        for part in ("policy", "version", "tiers", "enterprise", "tenants", "acme", "5,000", "routing", "profile"):
            assert part in seen.text
        await seen.type("/acme")
        assert "round_robin" not in seen.text
        assert "5,000" in seen.text


async def test_a_policy_that_changes_is_seen_and_one_that_cannot_be_told_stays() -> None:
    async with console(policy_there=POLICY, size=(120, 40)) as seen:
        await seen.command("routing")
        await seen.until(lambda: "round_robin" in seen.text)
        seen.platform.policy_there = replace(POLICY, routing=Routing("balanced"))
        await seen.pass_time(3)
        await seen.until(lambda: "balanced" in seen.text)
        seen.platform.policy_there = Unavailable("the store does not answer")
        await seen.pass_time(3)
        await seen.until(lambda: "the store does not answer" in seen.text)
        assert "balanced" in seen.text


async def test_it_scrolls_where_there_is_less_room() -> None:
    tenants = {f"tenant-{number}": Limits(rpm=number + 1) for number in range(30)}
    async with console(policy_there=replace(POLICY, tenants=tenants), size=(80, 24)) as seen:
        await seen.command("policy")
        await seen.until(lambda: "enterprise" in seen.text)
        assert "round_robin" not in seen.text
        await seen.press("G")
        await seen.until(lambda: "round_robin" in seen.text)
        await seen.press("g")
        await seen.until(lambda: "version" in seen.text)


async def test_a_home_key_that_opens_nothing_is_said_at_once_and_until_there_is_another() -> None:
    revoked = replace(keys(), home_key=HomeKey("key-000000000004", "revoked"))
    async with console(keys_there=revoked, size=(160, 40)) as seen:
        await seen.until(lambda: "(key/key-000000000004) is revoked" in seen.words)
        assert "inferdeck key create --replace-home-key makes another" in seen.words
        await seen.command("keys")
        await seen.until(lambda: "1 revoked" in seen.text)
        seen.platform.keys_there = replace(keys(), home_key=HomeKey("key-000000000001", "active"))
        await seen.until(lambda: "--replace-home-key" not in seen.words)
