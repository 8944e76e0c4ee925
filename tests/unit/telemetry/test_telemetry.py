"""Logs are JSON, carry the request id, and never a credential."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from control_plane.telemetry import redact, setup_logging


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    root = logging.getLogger()
    before, level, hooks = root.handlers[:], root.level, (sys.excepthook, threading.excepthook)
    root.handlers = []
    path = tmp_path / "component.log"
    setup_logging("gateway", path=path, gateway="g1")
    yield path
    for handler in root.handlers:
        handler.close()
    root.handlers = before
    root.setLevel(level)
    sys.excepthook, threading.excepthook = hooks
    logging.captureWarnings(False)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_has_its_component_fields_and_extras(log: Path) -> None:
    logging.getLogger("a.b").info("hello %s", "you", extra={"worker": "w1"})
    (line,) = lines(log)
    assert line["component"] == "gateway"
    assert (line["gateway"], line["worker"]) == ("g1", "w1")
    assert (line["level"], line["logger"], line["message"]) == ("info", "a.b", "hello you")


def test_credentials_are_cut_out_of_messages_extras_and_tracebacks(log: Path) -> None:
    try:
        raise ValueError("Bearer SENTINEL1 refused")
    except ValueError:
        logging.exception(
            "key sk-inferdeck-SENTINEL2",
            extra={"url": "postgresql://me:SENTINEL3@db/x", "op": "op-inferdeck-SENTINEL4"},
        )
    text = log.read_text()
    assert "SENTINEL" not in text
    (line,) = lines(log)
    assert "ValueError: Bearer [redacted] refused" in line["exception"]
    assert line["url"] == "postgresql://[redacted]@db/x"


def test_ordinary_words_are_left_alone() -> None:
    text = "risk-taking task-force at http://127.0.0.1:8080/v1 costs op-ed pages"
    assert redact(text) == text


def test_uncaught_exceptions_become_lines(log: Path) -> None:
    thread = threading.Thread(target=lambda: 1 / 0, name="worker-thread")
    thread.start()
    thread.join()
    try:
        raise RuntimeError("lost")
    except RuntimeError as error:
        sys.excepthook(type(error), error, error.__traceback__)
    threaded, main = lines(log)
    assert threaded["thread_name"] == "worker-thread"
    assert "ZeroDivisionError" in threaded["exception"]
    assert "RuntimeError: lost" in main["exception"]


def test_setting_up_again_replaces_the_first(log: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.log"
    setup_logging("control-plane", path=other)
    logging.info("once")
    assert log.read_text() == ""
    assert [line["component"] for line in lines(other)] == ["control-plane"]
