"""Logs: rotated while they are written, read to the end and on."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from control_plane.contracts.errors import NotFound
from control_plane.contracts.worker_spec import Announcement
from control_plane.fleet import logs as logs_module
from control_plane.fleet.cause import cause_of, last_words
from control_plane.fleet.launcher import log_file
from control_plane.fleet.launcher.log_file import last_lines, older, open_log, rotate
from control_plane.fleet.logs import Logs


def test_writers_go_on_in_a_log_that_was_rotated_under_them(tmp_path: Path) -> None:
    path = tmp_path / "worker-x.log"
    with open_log(path) as log:
        log.write(b"a" * 90 + b"\n")
        assert not rotate(path, limit=91)
        log.write(b"b\n")
        assert rotate(path, limit=91)
        log.write(b"c\n")
    assert path.read_bytes() == b"c\n"
    assert older(path).read_bytes() == b"a" * 90 + b"\nb\n"
    assert path.stat().st_mode & 0o777 == older(path).stat().st_mode & 0o777 == 0o600
    assert sorted(each.name for each in tmp_path.iterdir()) == ["worker-x.log", "worker-x.log.1"]


def test_a_log_that_is_not_there_is_not_rotated(tmp_path: Path) -> None:
    assert not rotate(tmp_path / "none.log")


def full_disk(source: Path, target: Path) -> None:
    target.write_bytes(b"half of it")
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_leaves_the_log_and_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.log"
    path.write_text("long\n")
    monkeypatch.setattr(log_file.shutil, "copyfile", full_disk)
    with pytest.raises(OSError, match="No space left"):
        rotate(path, limit=1)
    assert [each.name for each in tmp_path.iterdir()] == ["x.log"]
    assert path.read_text() == "long\n"


async def test_one_log_that_cannot_be_rotated_stops_neither_the_others_nor_the_next_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.log").touch()
    tried: list[str] = []
    enough = asyncio.Event()
    loop = asyncio.get_running_loop()

    def refuse(path: Path) -> bool:
        tried.append(path.name)
        if len(tried) == 4:
            loop.call_soon_threadsafe(enough.set)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(logs_module, "rotate", refuse)
    monkeypatch.setattr(logs_module, "ROTATE_S", 0.0)
    keeping = asyncio.create_task(Logs(tmp_path).keep_short())
    async with asyncio.timeout(30):
        await asyncio.wait({keeping, asyncio.create_task(enough.wait())}, return_when="FIRST_COMPLETED")
    assert not keeping.done()
    keeping.cancel()
    assert sorted(tried[:4]) == ["a.log", "a.log", "b.log", "b.log"]
    assert "No space left on device" in caplog.records[0].__dict__["cause"]


def test_the_last_lines_reach_into_the_older_generation(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    older(path).write_text("1\n2\n3\n")
    path.write_text("4\n5")
    assert last_lines(path, 3) == b"3\n4\n5"
    assert last_lines(path, 1) == b"5"
    assert last_lines(path, 0) == b""
    assert last_lines(tmp_path / "none.log", 5) == b""


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    for name in ("control-plane", "gateway-g1", "gateway-g2", "preloader", "worker-p-1"):
        (tmp_path / f"{name}.log").write_text(f"{name}\n")
    return Logs(tmp_path)


@pytest.mark.parametrize(
    ("target", "file"),
    [
        ("p-1", "worker-p-1"),
        ("worker/p-1", "worker-p-1"),
        ("g2", "gateway-g2"),
        ("gateway/g2", "gateway-g2"),
        ("gateway", "gateway-g1"),
        ("control-plane", "control-plane"),
        ("preloader", "preloader"),
    ],
)
def test_logs_are_found_by_what_people_call_them(logs: Logs, target: str, file: str) -> None:
    assert logs.find(target).stem == file


@pytest.mark.parametrize("target", ["", "p-2", "../control-plane", "/etc/passwd", "worker/../control-plane", "*"])
def test_nothing_else_is(logs: Logs, target: str) -> None:
    with pytest.raises(NotFound, match="there are: control-plane, g1, g2, p-1, preloader"):
        logs.find(target)


async def test_following_loses_nothing_when_the_log_is_rotated(tmp_path: Path) -> None:
    path = tmp_path / "worker-x.log"
    path.write_text("one\n")
    reading = Logs(tmp_path).read(path, 10, follow=True)
    assert await anext(reading) == b"one\n"
    with open_log(path) as log:
        log.write(b"two\n")
        assert await anext(reading) == b"two\n"
        log.write(b"three\n")
        rotate(path, limit=1)
        assert await _all(reading, 6) == b"three\n"
        log.write(b"four\n")
        assert await _all(reading, 5) == b"four\n"


async def _all(reading: AsyncIterator[bytes], size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += await anext(reading)
    return data


def test_the_cause_of_an_end_is_what_was_announced_or_the_last_line_that_says_something(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    said = Announcement("p-1", "i", 1, 1, "failed", detail="no room")
    assert cause_of("exit code 1", said, path) == "no room (exit code 1)"
    assert cause_of("ended", said, path) == "no room", "nothing more is known"
    loading = Announcement("p-1", "i", 1, 1, "loading", detail="reading weights")
    assert cause_of("exit code 1", loading, path) == "exit code 1"
    path.write_text('{"message": "it broke", "cause": "bad luck"}\n\n  \n')
    assert cause_of("exit code 1", loading, path) == "exit code 1; its log ends: it broke: bad luck"
    path.write_text("Traceback …\nValueError: sk-inferdeck-SENTINEL is no key\n")
    assert last_words(path) == "ValueError: sk-inferdeck-SENTINEL is no key"
    assert cause_of("exit code 1", None, path) == "exit code 1; its log ends: ValueError: [redacted] is no key"
