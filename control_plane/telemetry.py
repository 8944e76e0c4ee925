"""Structured logs: one JSON object per line, the same from every process of the system.

A line has ``time`` (UTC), ``level``, ``component``, ``logger``, ``message``, the fields given to ``setup_logging``, and
whatever the call passed as ``extra=``: ``request_id`` where it is about one. Many requests share one task, so that no
context could carry it. Credentials are cut out wherever they turn up,
tracebacks included; prompts and outputs are never passed to a logger in the first place.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any

_CREDENTIAL = re.compile(
    r"\b(?:sk-|op-inferdeck-)[A-Za-z0-9_-]{6,}"
    r"|(?<=://)[^/\s:@\"\\]*:[^/\s@\"\\]+(?=@)"
    r"|(?<=[Bb]earer )[^\s\"\\]+"
)
_RECORD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


def redact(text: str) -> str:
    """The text without API keys, operator keys, bearer tokens and passwords in URLs."""
    return _CREDENTIAL.sub("[redacted]", text)


class JsonFormatter(logging.Formatter):
    """A log record as one line of JSON."""

    def __init__(self, component: str, fields: dict[str, Any]) -> None:
        super().__init__()
        self._base = {"component": component, **fields}

    def format(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            **self._base,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {
            name: value
            for name, value in vars(record).items()
            if name not in _RECORD_FIELDS and not name.startswith("_")
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = self.formatStack(record.stack_info)
        return redact(json.dumps(line, default=str, ensure_ascii=False))


def setup_logging(component: str, *, path: Path | None = None, level: int | str = logging.INFO, **fields: Any) -> None:
    """Send every log of this process to the end of ``path``, or to stderr where there is none.

    ``component`` says what the process is ("gateway", "worker", …), ``fields`` go into every line. Calling it again
    replaces what an earlier call set up. Uncaught exceptions and warnings become log lines too.
    """
    handler = logging.StreamHandler(sys.stderr) if path is None else logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(JsonFormatter(component, fields))
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
        old.close()
    root.addHandler(handler)
    root.setLevel(level)
    logging.captureWarnings(True)
    sys.excepthook = _log_uncaught
    threading.excepthook = _log_uncaught_in_thread


def _log_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        return
    logging.getLogger("uncaught").critical("uncaught exception", exc_info=(kind, error, trace))


def _log_uncaught_in_thread(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is not None and not issubclass(args.exc_type, SystemExit):
        name = args.thread.name if args.thread else "?"
        logging.getLogger("uncaught").critical(
            "uncaught exception in a thread",
            exc_info=(args.exc_type, args.exc_value, args.exc_traceback),
            extra={"thread_name": name},
        )
