"""The screen of callers' keys."""

from __future__ import annotations

import dataclasses

from control_plane.contracts.access import KeyList
from control_plane.contracts.errors import Forbidden, Unavailable
from tests.snapshots.memory import NOW, keys, snapshot
from tests.unit.console.tui.harness import Console, console


async def opened(seen: Console) -> None:
    await seen.command("keys")
    await seen.until(lambda: "sk-inferdeck-Kd3b" in seen.text)


async def test_each_key_is_a_row_with_its_state_and_nothing_in_it_is_obeyed() -> None:
    async with console(first=snapshot(NOW + 119.5), size=(160, 48)) as seen:
        await opened(seen)
        row = next(line for line in seen.lines if "Kd3b" in line)
        for text in ("active", "web shop", "acme", "paid", "60 rpm 10k tpm"):
            assert text in row
        assert "expired" in next(line for line in seen.lines if "p0Qe" in line)
        assert "revoked" in next(line for line in seen.lines if "zzR1" in line)
        assert "[red]left\\x1b" in seen.text
        assert "2 active   1 expired   1 revoked" in seen.text


async def test_the_filter_finds_tenants() -> None:
    async with console() as seen:
        await opened(seen)
        await seen.type("/umbrella")
        assert "p0Qe" in seen.text
        assert "Kd3b" not in seen.text


async def test_what_cannot_be_told_is_said_and_what_was_told_stays() -> None:
    refusal = Forbidden("ListKeys needs the role viewer")
    async with console(keys_there=refusal) as seen:
        await seen.command("keys")
        await seen.until(lambda: refusal.message in seen.text)
        assert "– active" in seen.text
        seen.platform.keys_there = keys()
        await seen.until(lambda: "Kd3b" in seen.text)
        assert refusal.message not in seen.text
        seen.platform.keys_there = Unavailable("the store does not answer")
        await seen.until(lambda: "the store does not answer" in seen.text)
        assert "Kd3b" in seen.text


async def test_a_pause_freezes_the_rows() -> None:
    async with console() as seen:
        await opened(seen)
        await seen.press("p")
        told = keys()
        renamed = dataclasses.replace(told.keys[0], prefix="sk-inferdeck-NEWS")
        seen.platform.keys_there = KeyList((renamed,), told.taken_unix)
        screen = seen.app.screen
        await seen.until(lambda: screen._newest.keys is seen.platform.keys_there)  # type: ignore[attr-defined]
        assert "NEWS" not in seen.text
        await seen.press("p")
        assert "NEWS" in seen.text


async def test_nobody_asks_for_keys_that_are_not_looked_at() -> None:
    async with console() as seen:
        assert seen.app._key_feed.running is None
        await opened(seen)
        asking = seen.app._key_feed.running
        assert asking is not None
        await seen.command("workers")
        assert seen.app._key_feed.running is None
        assert asking.is_cancelled or asking.is_finished
