"""A real engine is recorded step by step until it is killed; the recording is read where vLLM cannot be imported."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest

from console.client import OperatorClient
from console.plain.data import plain
from console.record.reader import RecordingReader
from console.record.recording import Recording
from control_plane.contracts.block_tables import BlockTables
from control_plane.contracts.fleet import Event
from control_plane.contracts.step import StepFrame
from tests.integration.platform.rig import Platform, until
from tests.integration.platform.test_record import replay
from tests.real_vllm.test_platform import REAL

T = TypeVar("T")


@pytest.mark.timeout(900)
def test_the_same_steps_and_the_same_crash(tmp_path: Path) -> None:
    platform = Platform(tmp_path, REAL.replace("replicas = 2", "replicas = 1"), patience_s=600.0)
    path = tmp_path / "incident.deck"
    try:
        platform.up()
        recorder = platform.start("record", str(path))
        recorder.until("recording")
        shared = "You know everything there is to know about the sky and the sea. " * 12
        with ThreadPoolExecutor(3) as pool:
            asked = [
                pool.submit(platform.ask, shared + question, max_tokens=12, temperature=0)
                for question in ("Why is it blue?", "How deep is it?", "Who are you?")
            ]
            assert [answer.result().status_code for answer in asked] == [200] * 3
        kept = kept_steps(platform)
        victim = platform.snapshot().workers[0]
        until(
            lambda: kept[-1]["step"] in {s.step for f in recorded(path, StepFrame) for s in f.steps},
            "the last step in the recording",
        )
        platform.kill(victim.engine_pid)
        until(lambda: any("SIGKILL" in event["message"] for event in platform.read("events")), "the crash")
        until(lambda: any("SIGKILL" in event.message for event in recorded(path, Event)), "the crash in the recording")
        assert recorder.interrupt() == 0
    finally:
        platform.end()
    lines = [json.loads(line) for line in replay(str(path), "-o", "json").stdout.splitlines()]
    crash = next(line for line in lines if line["kind"] == "event" and "SIGKILL" in line["value"]["message"])
    assert crash["value"]["subject"] == f"worker/{victim.id}"
    # After it there may be steps of the engine that was started in its place.
    frames = [line["value"] for line in lines[: lines.index(crash)] if line["kind"] == "steps"]
    assert [step for frame in frames for step in frame["steps"]] == kept


def kept_steps(platform: Platform) -> list[dict[str, Any]]:
    """All that the worker has in its ring, and that its tables come out empty."""

    async def ask() -> list[StepFrame]:
        async with OperatorClient.open(platform.home) as client:
            worker = (await client.get_snapshot()).workers[0].id
            return [frame async for frame in client.watch_steps(worker, live=False)]

    frames = asyncio.run(ask())
    tables = BlockTables(frames[0].base)
    for frame in frames:
        tables.apply_all(frame.steps)
    assert tables.tables() == ()
    return [plain(step) for frame in frames for step in frame.steps]


def recorded(path: Path, kind: type[T]) -> list[T]:
    """What is on disk by now."""
    with RecordingReader.open(path) as reader:
        return [entry.value for entry in Recording(reader).entries() if isinstance(entry.value, kind)]
